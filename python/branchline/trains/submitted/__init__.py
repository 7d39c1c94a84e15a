"""Trains on a batch system: their jobs share only the output directory."""
