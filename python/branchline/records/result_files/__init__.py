"""The files in an output directory: wagons' results in ROOT, JSON and Arrow formats, and `job.json`."""
