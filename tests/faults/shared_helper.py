"""A module that several wagons import, as analysts of one group have it."""

SCALE = 1.0
