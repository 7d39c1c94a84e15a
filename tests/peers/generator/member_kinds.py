"""Kinds that only members of classes are: pointers that are never null, enumerations, C's texts, ROOT's lists."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from tests.peers.generator.collections_of_root import Objects
from tests.peers.generator.values import Holding, Kind, Limits, Number, Text


@dataclass(eq=False)
class NeverNull(Holding):
    """A pointer to an object or container that is always there; its value is what it points to."""

    # The comment for rootcling: `->` of objects, which are then streamed without the name of their class.
    comment: str = ""

    @property
    def cpp(self) -> str:  # type: ignore[override]
        return f"{self.of.cpp}*"

    def parts(self) -> list[Kind]:
        return [self.of]


class Enumeration(Number):
    """An enumeration of a family, which is stored as an int."""

    NAME = "Colour"

    def __init__(self, namespace: str) -> None:
        super().__init__(f"{namespace}::{self.NAME}", "i", "i4")


class OldText(Text):
    """A char*: an empty one is null."""

    def __init__(self) -> None:
        super().__init__("char*")


class Listed(Objects):
    """A TList of objects of several classes; null has no place in it."""

    cpp = "TList"

    def random(self, rng: Random, limits: Limits) -> list[Any]:
        return [one for one in super().random(rng, limits) if one is not None]
