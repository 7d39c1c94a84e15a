"""The command `branchline`: arguments and printing, nothing else."""

import os
import sys

from branchline.cli.commands import COMMANDS, GROUPS, found
from branchline.cli.failure import ended

# Set by shells that ask which words may come next, which is typer's business.
_COMPLETING = "_BRANCHLINE_COMPLETE"


def main() -> None:
    """Entry point of the command line: of all commands only the wanted one is imported, and typer only to explain."""
    ended(_command)


def _command() -> None:
    words = sys.argv[1:]
    if words == ["--version"]:
        words = ["version"]
    name = words[0] if words else ""
    if name in COMMANDS and name not in GROUPS and _COMPLETING not in os.environ:
        from branchline.cli.quick import parsed

        command = found(name)
        given = parsed(command, words[1:])
        if given is not None:
            command(**given)
            return
    from branchline.cli.full import application

    application([name] if name in COMMANDS else COMMANDS)()


__all__ = ["main"]
