"""Trains on a batch system. All of their jobs share only the output directory."""
