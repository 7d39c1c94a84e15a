"""Forecasts of the requests, bytes and time of a read under other conditions, with intervals."""
