"""Writes the pages of the site that follow from the code: commands, Python, the record of a job, measurements."""
