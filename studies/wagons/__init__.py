"""Trains for the studies: the wagons of each are the list `wagons` of a module."""
