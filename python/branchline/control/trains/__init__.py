"""Trains: wagons that passed their trials, put together over a dataset, run, followed, and looked at afterwards."""
