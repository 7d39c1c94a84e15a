"""Sensors: the list of all quantities that are measured for a job, and the record that stores the values."""
