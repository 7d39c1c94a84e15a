"""Trains on a batch system, whose jobs communicate only through the output directory."""
