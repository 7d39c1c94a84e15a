"""Sensors: everything that is measured in a job, declared in one list."""
