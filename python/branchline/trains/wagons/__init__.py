"""Wagons and their inputs: events, parameters, variations, companions and shared columns."""
