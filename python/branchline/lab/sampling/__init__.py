"""Samples of a study: jobs started together, here or on a farm, with a cold or a warm cache."""
