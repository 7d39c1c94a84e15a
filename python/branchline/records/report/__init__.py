"""The report of a job: `report.html`, and the summary on the terminal."""
