"""The job of a trace: the facts about it that a trace file keeps as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


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
    def from_json(cls, plain: Mapping[str, object]) -> TracedJob:
        """The job that ``to_json`` wrote; facts that are missing have their defaults, others are left out.

        Raises ValueError or TypeError for facts of other types.
        """
        usual = cls()
        notes = plain.get("notes", ())
        if not isinstance(notes, list | tuple):
            raise TypeError("notes are no list")
        return cls(
            command=str(plain.get("command", usual.command)),
            program=str(plain.get("program", usual.program)),
            host=str(plain.get("host", usual.host)),
            started_unix_ns=_number(plain.get("started_unix_ns")) or 0,
            wall_ns=_number(plain.get("wall_ns")) or 0,
            processes=_number(plain.get("processes")),
            exit_code=_number(plain.get("exit_code")),
            notes=tuple(str(note) for note in notes),
        )


def _number(value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int | float | str):
        raise TypeError(f"{value!r} is no number")
    return int(value)


_FIELDS = tuple(TracedJob.__dataclass_fields__)
