"""The command `branchline`: arguments and printing, nothing else."""

import sys


def main() -> None:
    """Entry point of the command line. Merging files takes less time than to import all that other commands need."""
    if sys.argv[1:2] == ["merge"]:
        from branchline.cli.merging import main as merge

        merge()
    else:
        from branchline.cli.app import main as any_command

        any_command()


__all__ = ["main"]
