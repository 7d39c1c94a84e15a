"""Findings: problems at sites, storage elements and jobs, each with its evidence and remedy."""
