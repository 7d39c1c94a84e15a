"""`branchline completion` and `version`: scripts that complete commands in shells, and the version.

The scripts are generated from the commands' parameters.
"""

from __future__ import annotations

import argparse
from typing import Annotated, Literal

from branchline._core import __version__
from branchline.cli.command_list import GROUPS, command, names
from branchline.cli.parameters import Argument
from branchline.cli.parser import add_parameter
from branchline.cli.printing import print_block_out, print_out


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], Argument(metavar="SHELL", help="The shell: bash, zsh or fish.")],
) -> None:
    """Print a script that lets a shell complete commands, options and their values.

    Examples:
        Complete in bash, from now on in every new shell:
            branchline completion bash >> ~/.bashrc
        In zsh, in a folder of $fpath:
            branchline completion zsh > ~/.zfunc/_branchline
        In fish:
            branchline completion fish > ~/.config/fish/completions/branchline.fish

    """
    # Imported here since `version` does not need it.
    import shtab

    # A parser with a subparser for each command, which is only needed for completion.
    whole = argparse.ArgumentParser(prog="branchline")
    whole.add_argument("--version", action="store_true", help="Print the version.")
    first = whole.add_subparsers()
    groups = {name: first.add_parser(name, help=about).add_subparsers() for name, about in GROUPS.items()}
    for name in names():
        group, _, second = name.partition(" ")
        if second and group not in groups:
            continue  # no subparser, because the word after `forecast` is usually a file
        parser = (groups[group] if second else first).add_parser(second or group, help=command(name).summary)
        for one in command(name).parameters:
            action = add_parameter(parser, one)
            action.choices = one.choices or None
            if not one.choices and one.kind not in ("flag", "integer", "number"):
                setattr(action, "complete", shtab.FILE)  # noqa: B010 - an attribute of shtab
    print_block_out(shtab.complete(whole, shell).rstrip())


def version() -> None:
    """Print the version."""
    print_out(__version__)
