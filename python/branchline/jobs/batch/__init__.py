"""Batch systems: Slurm and HTCondor run a job's steps in order and report the states of their tasks."""
