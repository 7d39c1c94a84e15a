"""Samples of a study: concurrent jobs on this machine or on a farm, with a cold or a warm page cache."""
