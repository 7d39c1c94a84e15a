"""Results of finished trains: loaded, scaled to a luminosity, and drawn."""
