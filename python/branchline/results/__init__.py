"""The results of trains, after they ran: loaded as what the wagons returned, scaled to a luminosity, and drawn."""
