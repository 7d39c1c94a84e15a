"""Sensors: the list of everything that is measured in a job, and the record that holds it."""
