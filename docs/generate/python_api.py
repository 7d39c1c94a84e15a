"""Generates the reference of the public Python API: every name in `branchline.__all__` with its docstring."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

import branchline

HEAD = """# Python

All public names of `branchline`. Names that are not on this page are not public: they may change in any version.

"""


def page() -> str:
    public = {name: getattr(branchline, name) for name in branchline.__all__ if not name.startswith("_")}
    classes = {name for name, what in public.items() if inspect.isclass(what)}
    errors = {name for name in classes if issubclass(public[name], Exception)}
    aliases = {name for name in errors if public[name].__name__ != name}
    functions = {name for name, what in public.items() if inspect.isroutine(what)}
    text = HEAD
    text += "## Functions\n\n" + _blocks("autofunction", sorted(functions))
    options = ":members:\n:special-members: __getitem__, __len__, __iter__, __call__\n"
    text += "## Classes\n\n" + _blocks("autoclass", sorted(classes - errors), options)
    text += "## The events argument of a wagon\n\n"
    text += _blocks("autoclass", ["trains.wagons.events.Events"], ":members:\n")
    text += "## Errors and warnings\n\n" + _blocks("autoexception", sorted(errors - aliases))
    text += "`branchline.exceptions` is the module of all errors and warnings, named as in uproot.\n\n"
    for name in sorted(aliases):
        text += f"`branchline.{name}` is an alias of `branchline.{public[name].__name__}`.\n\n"
    return text


def _blocks(directive: str, names: Iterable[str], options: str = "") -> str:
    lines = []
    for name in names:
        indented = "".join(f"   {line}\n" for line in options.splitlines())
        lines.append(f"```{{eval-rst}}\n.. {directive}:: branchline.{name}\n{indented}```\n\n")
    return "".join(lines)
