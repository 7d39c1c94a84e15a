"""Batch systems: Slurm and HTCondor submit steps of tasks, each step after the one before, and report their states.

Nothing in here knows what a train is.
"""
