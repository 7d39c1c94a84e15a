"""How a copy of an object differs from it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Differences:
    """What a copy of an object has in another way: its title, and numbers of a histogram by the names of ROOT's
    members; those of its bins are called ``cells``.
    """

    title: str | None = None
    numbers: list[tuple[str, list[float]]] = field(default_factory=list)
