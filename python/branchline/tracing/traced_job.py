"""The job of a trace: the facts about it that a trace file keeps as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class TracedJob:
    """The command that was traced, the ``program`` that recorded it (branchline or strace), the host, when it began
    (nanoseconds since 1970) and how long it took. ``processes`` is how many were recorded, ``exit_code`` that of the
    command, both None where they are not known. ``notes`` are sentences on what the trace does not hold.
    """

    command: str = "a job"
    program: str = ""
    host: str = ""
    started_unix_ns: int = 0
    wall_ns: int = 0
    processes: int | None = None
    exit_code: int | None = None
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """The facts that are known, as numbers and texts."""
        facts = {name: getattr(self, name) for name in _FIELDS}
        return {name: list(value) if name == "notes" else value for name, value in facts.items() if value is not None}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> TracedJob:
        """The job that ``to_json`` wrote; facts that are missing have their defaults, others are left out.

        Raises ValueError or TypeError for facts of other types.
        """
        facts = {name: value for name, value in plain.items() if name in _FIELDS}
        for name in ("started_unix_ns", "wall_ns", "processes", "exit_code"):
            if facts.get(name) is not None:
                facts[name] = int(facts[name])
        for name in ("command", "program", "host"):
            if name in facts:
                facts[name] = str(facts[name])
        facts["notes"] = tuple(str(note) for note in facts.get("notes", ()))
        return cls(**facts)


_FIELDS = tuple(TracedJob.__dataclass_fields__)
