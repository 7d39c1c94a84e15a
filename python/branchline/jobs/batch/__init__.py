"""Batch systems: Slurm and HTCondor run the steps of a job one after another and report their states."""
