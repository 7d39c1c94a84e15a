"""Trains that are submitted to a batch system: the directory of results is all that their jobs share."""
