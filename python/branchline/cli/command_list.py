"""The list of all commands. A command's module is imported when the command is called or described."""

from __future__ import annotations

import inspect
import re
from functools import cached_property
from importlib import import_module
from types import FunctionType
from typing import Annotated

from branchline.cli.parameters import GENERAL, CommandParameter, Members, Option, flat, members_of

#: Commands in the order of the help, by heading. Each name maps to the module in `commands` and the function.
SECTIONS: dict[str, dict[str, str]] = {
    "Run analyses": {
        "run": "run:run",
        "test": "run:try_wagons",
        "status": "submitted:status",
        "resume": "submitted:resume",
        "cancel": "submitted:cancel",
        "rerun": "rerun:rerun",
        "reproduce": "rerun:reproduce",
        "ledger": "rerun:ledger",
        "plot": "plot:plot",
        "table": "plot:table",
    },
    "Look at files": {
        "show": "show:show",
        "inspect": "inspect:inspect",
        "verify": "verify:verify",
        "locate": "inspect:locate",
    },
    "Make files": {
        "merge": "merge:merge",
        "skim": "merge:skim",
        "slim": "merge:slim",
        "reorder": "merge:reorder",
        "recompress": "merge:recompress",
        "convert": "convert:convert",
    },
    "Look at reads": {
        "trace run": "trace:run_command",
        "trace show": "trace:show",
        "trace diff": "trace:diff",
        "trace recover": "trace:recover",
        "trace replay": "trace:replay",
        "trace export": "trace:export",
        "trace import": "trace:import_requests",
        "proxy": "proxy:proxy",
    },
    "Ask what if": {
        "advise": "forecast:advise",
        "forecast": "forecast:forecast",
        "forecast check": "forecast:check",
        "calibrate": "forecast:calibrate",
    },
    "Compare": {
        "compare": "compare:compare",
        "study run": "study:run",
        "study show": "study:show",
        "study storage": "study:storage",
        "study schedule": "study:schedule",
        "study reference": "study:reference",
        "study history": "study:history",
    },
    "Follow jobs": {
        "serve": "serve:serve",
        "people add": "people:add",
        "people change": "people:change",
        "people list": "people:list_all",
        "report send": "report:send",
    },
    "Other": {
        "demo-data": "demo_data:demo_data",
        "completion": "completion:completion",
        "version": "completion:version",
    },
}
#: Groups of commands: the name of the group is followed by a second word.
GROUPS = {
    "people": "Manage the accounts of a shared control room.",
    "report": "Send the reports of jobs to a control room.",
    "study": "Compare storages, settings and programs.",
    "trace": "Record, show and compare which bytes a job or any other program reads.",
}

_DEBUG = Annotated[bool, Option("--debug", help="Print the traceback of an error.", group=GENERAL)]
_EXAMPLES = r"(?m)^Examples?:$"


def names() -> list[str]:
    """Return the names of all commands."""
    return [name for section in SECTIONS.values() for name in section]


class Command:
    """A command: its name (two words if it is in a group), its heading in the help, and its function."""

    def __init__(self, name: str, section: str, function: FunctionType) -> None:
        self.name, self.section, self.function = name, section, function

    @cached_property
    def members(self) -> Members:
        """The parameters and option groups of the command's function."""
        return members_of(self.function)

    @cached_property
    def parameters(self) -> tuple[CommandParameter, ...]:
        """The command's arguments and options, including ``--debug``, which every command has."""
        own = tuple(flat(self.members))
        return own if any("--debug" in one.flags for one in own) else (*own, *flat(members_of(_with_debug)))

    @property
    def summary(self) -> str:
        """The first paragraph of the command's description, which is a single sentence."""
        return _paragraphs(self._text())[0]

    @property
    def details(self) -> list[str]:
        """The paragraphs of the command's description after the first one."""
        return _paragraphs(self._text())[1:]

    @property
    def examples(self) -> list[tuple[str, str]]:
        """The examples in the docstring's ``Examples:``, as (purpose, command line) pairs."""
        parts = re.split(_EXAMPLES, inspect.getdoc(self.function) or "")
        lines = [line.strip() for line in parts[1].splitlines() if line.strip()] if len(parts) > 1 else []
        return [(purpose.rstrip(":"), line) for purpose, line in zip(lines[::2], lines[1::2], strict=True)]

    @property
    def usage(self) -> str:
        """The usage line, which shows optional options only as ``[OPTIONS]``."""
        words = ["branchline", self.name, "[OPTIONS]"]
        words += [f"{one.flags[-1]} {one.metavar}" for one in self.parameters if one.flags and one.is_required]
        arguments = [one for one in self.parameters if not one.flags]
        words += [one.metavar if one.is_required else f"[{one.metavar}]" for one in arguments]
        return " ".join(words)

    def _text(self) -> str:
        return re.split(_EXAMPLES, inspect.getdoc(self.function) or "")[0]


def _with_debug(debug: _DEBUG = False) -> None:
    """Do nothing: the signature declares the option ``--debug``, which every command has."""


def _paragraphs(text: str) -> list[str]:
    return [" ".join(one.split()) for one in text.split("\n\n") if one.strip()]


def command(name: str) -> Command:
    """Return the command with the given name. Raises KeyError."""
    for section, members in SECTIONS.items():
        if name in members:
            module, _, function = members[name].partition(":")
            return Command(name, section, getattr(import_module(f"branchline.cli.commands.{module}"), function))
    raise KeyError(name)
