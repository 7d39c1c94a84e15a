"""Traces of requests: recorded, compared with the map of their files, summed up, compared and replayed."""
