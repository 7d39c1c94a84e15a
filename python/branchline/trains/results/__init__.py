"""Loads the results of finished trains, scales them to a luminosity, and draws them."""
