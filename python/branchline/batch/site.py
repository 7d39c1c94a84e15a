"""A site's configuration of its batch systems: a TOML file with a section for each.

[slurm]
partition = "long"
memory = "4G"
prologue = ["source /cvmfs/setup.sh"]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from branchline.errors import OptionError
from branchline.sites import site_content, site_path


@dataclass(frozen=True, kw_only=True)
class Site:
    """What jobs ask a batch system for, in its own words; None leaves it to the system.

    ``python`` is the interpreter on the nodes, by default the one that submits. ``cpus`` are those of a task.
    ``prologue`` are lines of a shell script before it, ``options`` go to the system as they are.
    """

    partition: str | None = None
    account: str | None = None
    memory: str | None = None
    time: str | None = None
    image: str | None = None
    python: str | None = None
    cpus: int = 1
    prologue: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def with_options(self, options: tuple[str, ...]) -> Site:
        """With further options behind its own, which win where both say something."""
        return replace(self, options=self.options + options)


def load_site(section: str) -> Site:
    """The section of a batch system; without a file or section nothing is asked for. Raises OptionError."""
    path = site_path()
    found = site_content().get(section, {})
    if not isinstance(found, Mapping):
        raise OptionError(f"{section} is not a section", path=str(path), hint=f"write [{section}]")
    return Site(**{name: _checked(name, value, path) for name, value in found.items()})


def _checked(name: str, value: Any, path: Path) -> Any:
    kinds = {one.name: one.type for one in fields(Site)}
    if name not in kinds:
        near = get_close_matches(name, kinds, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(kinds)}"
        raise OptionError(f"a site has no {name!r}", path=str(path), hint=hint)
    if kinds[name] == "int":
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
        raise OptionError(f"{name} is {value!r}", path=str(path), hint="write a number, 1 or more")
    if kinds[name] == "tuple[str, ...]":
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            return tuple(value)
        raise OptionError(f"{name} is {value!r}", path=str(path), hint='write it like ["first", "second"]')
    if isinstance(value, str | int) and not isinstance(value, bool):
        return str(value)
    raise OptionError(f"{name} is {value!r}", path=str(path), hint="write a text")
