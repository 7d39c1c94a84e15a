"""Trains of the control room: composed of wagons that passed their trials, started and followed."""
