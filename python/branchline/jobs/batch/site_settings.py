"""Site configuration of the batch systems: a TOML file with one section per system.

[slurm]
partition = "long"
memory = "4G"
prologue = ["source /cvmfs/setup.sh"]

Memory requests are integers with an optional unit K, M, G or T (default MiB), as in Slurm and HTCondor.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from pathlib import Path

from branchline.base.limits import BATCH_MEMORY_GROWTH, BATCH_MEMORY_GROWTH_MAX
from branchline.errors import OptionError
from branchline.jobs.sites import SiteFile

#: Number of KiB in each memory unit.
_UNITS_KIB = {"K": 1, "": 2**10, "M": 2**10, "G": 2**20, "T": 2**30}


@dataclass(frozen=True, kw_only=True)
class Site:
    """The resources that jobs request, in the syntax of the batch system; None means the system's default.

    - ``memory_max`` limits the memory requests of tasks that are resubmitted after they ran out of memory; the default
      is four times ``memory``.
    - ``python`` is the interpreter on the nodes; the default is the interpreter that submits the job.
    - ``cpus`` is the number of CPUs per task.
    - ``prologue`` is a list of shell lines that run before each task.
    - ``options`` are passed to the batch system unchanged.
    - ``trusted_users`` are further users, besides the submitting user, as whom tasks may run.
    """

    partition: str | None = None
    account: str | None = None
    memory: str | None = None
    memory_max: str | None = None
    time: str | None = None
    image: str | None = None
    python: str | None = None
    cpus: int = 1
    prologue: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    trusted_users: tuple[str, ...] = ()

    def with_options(self, options: tuple[str, ...]) -> Site:
        """Return a copy with additional options, which override the site's own options."""
        return replace(self, options=self.options + options)


def load_site(section: str) -> Site:
    """Return the settings for a batch system, or the defaults if the file or section is missing. Raises OptionError."""
    file = SiteFile.load()
    given = _Section(file.path, file.section(section, hint=f"write [{section}]"))
    given.check_names([one.name for one in fields(Site)])
    return Site(
        partition=given.text("partition"),
        account=given.text("account"),
        memory=given.text("memory"),
        memory_max=given.memory_max(),
        time=given.text("time"),
        image=given.text("image"),
        python=given.text("python"),
        cpus=given.count("cpus"),
        prologue=given.texts("prologue"),
        options=given.texts("options"),
        trusted_users=given.texts("trusted_users"),
    )


@dataclass(frozen=True)
class _Section:
    """One section of the site file; each value is validated when it is read."""

    path: Path
    values: Mapping[str, object]

    def check_names(self, names: Sequence[str]) -> None:
        for name in self.values:
            if name not in names:
                near = get_close_matches(name, names, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(names)}"
                raise OptionError(f"unknown site setting {name!r}", path=str(self.path), hint=hint)

    def text(self, name: str) -> str | None:
        value = self.values.get(name)
        if name not in self.values:
            return None
        if isinstance(value, str | int) and not isinstance(value, bool):
            return str(value)
        raise self._wrong(name, "write a string")

    def memory_max(self) -> str | None:
        most, memory = self.text("memory_max"), self.text("memory")
        if most is None:
            return None
        most_kib, least_kib = memory_kib(most), memory_kib(memory or "")
        if most_kib is None:
            raise self._wrong("memory_max", 'write it like "8G"')
        if least_kib is None:
            raise self._wrong("memory_max", 'set memory as well, for example "4G"')
        if most_kib < least_kib:
            raise self._wrong("memory_max", f"it must be at least memory, which is {memory}")
        return most

    def count(self, name: str) -> int:
        value = self.values.get(name, 1)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
        raise self._wrong(name, "write an integer of at least 1")

    def texts(self, name: str) -> tuple[str, ...]:
        value = self.values.get(name, [])
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            return tuple(value)
        raise self._wrong(name, 'write it like ["first", "second"]')

    def _wrong(self, name: str, hint: str) -> OptionError:
        return OptionError(f"invalid {name} {self.values.get(name)!r}", path=str(self.path), hint=hint)


# --- memory that jobs request -----------------------------------------------------------------------------------------


def memory_kib(text: str) -> int | None:
    """Return a memory request in KiB.

    Returns None for 0 (a whole node in Slurm) and for requests that are not a size, such as an expression.
    """
    found = re.fullmatch(r"(\d+)\s*([KMGT]?)B?", text.strip(), re.IGNORECASE | re.ASCII)
    return None if found is None else int(found[1]) * _UNITS_KIB[found[2].upper()] or None


def more_memory(before: str, first: str, most: str | None) -> str:
    """Return twice the memory request ``before`` of a task that ran out of memory.

    The maximum is ``most``, by default four times the original request ``first``. Returns ``before`` if the maximum is
    reached or if the request is not a size.
    """
    now_kib, first_kib = memory_kib(before), memory_kib(first)
    if now_kib is None or first_kib is None:
        return before
    most_kib = memory_kib(most) if most is not None else first_kib * BATCH_MEMORY_GROWTH_MAX
    wanted_kib = min(now_kib * BATCH_MEMORY_GROWTH, most_kib or now_kib)
    return before if wanted_kib <= now_kib else f"{-(-wanted_kib // 2**10)}M"
