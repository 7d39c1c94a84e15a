"""Where the commands are: only that which is wanted is imported."""

from __future__ import annotations

from importlib import import_module
from typing import Any

#: Modules of this room and what they call them, in the order of the help.
COMMANDS = {
    "run": ("trains", "run"),
    "test": ("trains", "try_wagons"),
    "show": ("showing", "show"),
    "inspect": ("inspecting", "inspect"),
    "merge": ("merging", "merge"),
    "verify": ("verifying", "verify"),
    "reorder": ("rewriting", "reorder"),
    "recompress": ("rewriting", "recompress"),
    "skim": ("rewriting", "skim"),
    "slim": ("rewriting", "slim"),
    "convert": ("converting", "convert"),
    "proxy": ("proxying", "proxy"),
    "demo-data": ("demo_data", "demo_data"),
    "version": ("versions", "version"),
    "trace": ("tracing", "trace"),
}
#: Those that have commands themselves: applications of typer.
GROUPS = frozenset({"trace"})


def found(name: str) -> Any:
    """A command, or a group of them."""
    module, own_name = COMMANDS[name]
    return getattr(import_module(f"branchline.cli.{module}"), own_name)
