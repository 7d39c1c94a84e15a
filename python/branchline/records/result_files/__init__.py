"""The files in an output directory: results of wagons in ROOT, JSON and Arrow formats, and `job.json`."""
