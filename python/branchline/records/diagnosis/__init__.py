"""Derives bottlenecks and advice from a job's record."""
