"""Trains: wagons that share one read of a dataset, what becomes of their results, and a forecast of both."""
