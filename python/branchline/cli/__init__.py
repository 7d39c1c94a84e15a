"""The command `branchline`: arguments and printing, nothing else."""

from branchline.cli.app import main

__all__ = ["main"]
