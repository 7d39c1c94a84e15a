"""Generates pages of the site from the code: commands, the Python API, the record of a job, and measurements."""
