"""Bottlenecks and advice that follow from the record of a job alone."""
