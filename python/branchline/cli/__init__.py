"""The command line: only arguments and output; `commands/` has one module per command or group of commands.

The signature of a command declares its arguments. Start with `command_list.py` and `commands/run.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

from branchline.base.exit_codes import EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, exit_with
from branchline.base.imports import missing_packages_explained
from branchline.cli.command_list import GROUPS
from branchline.cli.parameters import filled
from branchline.cli.parser import UsageError, named_command, overview, parse
from branchline.cli.printing import errors_printed, log, open_closed_streams, print_block_out, print_error

HELP = ("-h", "--help")


def main() -> NoReturn:
    """Entry point of the command line."""
    open_closed_streams()
    try:
        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    exit_with(code)


def run(words: Sequence[str]) -> int:
    """Run a command line, without the program's name, and return its exit code."""
    try:
        with errors_printed(debug="--debug" in words), missing_packages_explained():
            try:
                return _run(["version"] if list(words) == ["--version"] else words)
            except UsageError as error:
                log(f"error: {error}")
                log(f"{' '.join(['branchline', error.command]).strip()} --help shows the usage")
                return EXIT_USAGE
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else EXIT_OK


def _run(words: Sequence[str]) -> int:
    group, behind = (words[0], words[1:]) if words and words[0] in GROUPS else ("", words)
    if not behind:
        print_error(overview(group))
        return EXIT_USAGE
    if behind[0] in HELP:
        print_block_out(overview(group))
        return EXIT_OK
    command, rest = named_command(words)
    values = parse(command, rest)
    code = command.function(**filled(command.members, values))
    return EXIT_OK if code is None else code


__all__ = ["main", "run"]
