"""Wagons and what they see: events, parameters, variations, companions and shared columns."""
