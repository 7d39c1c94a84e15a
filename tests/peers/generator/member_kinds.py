"""Kinds that only members of classes are: pointers that are never null, enumerations, C's texts, ROOT's lists."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar

from tests.peers.generator.collections_of_root import Objects
from tests.peers.generator.values import INT, NUMBERS, Holding, Kind, Limits, Number, Text

UNDERLYING_TYPES = (
    "signed char", "unsigned char", "short", "unsigned short", "int", "unsigned int", "long", "unsigned long",
)  # fmt: skip


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
    """An enumeration of a family, with an underlying type of any width."""

    TYPES: ClassVar = {f"Colour{of.dtype.upper()}": of for of in NUMBERS if of.cpp in UNDERLYING_TYPES}

    def __init__(self, namespace: str, name: str) -> None:
        of = self.TYPES[name]
        super().__init__(f"{namespace}::{name}", of.code, of.dtype)

    def form(self) -> str:
        # No file says which type a container has that is a branch, or a member that is no container.
        return "?"

    @property
    def is_stored_as_member(self) -> bool:
        """Whether ROOT stores members of this type in a TTree. It neither stores nor describes those of 64 bits."""
        return not self.dtype.endswith("8")

    @property
    def is_stored_in_arrays(self) -> bool:
        """Whether ROOT stores fixed arrays of it. It describes others of 8 to 32 bits, and stores nothing."""
        return self.dtype == INT.dtype


class OldText(Text):
    """A char*: an empty one is null."""

    def __init__(self) -> None:
        super().__init__("char*")


class Listed(Objects):
    """A TList of objects of several classes; null has no place in it."""

    cpp = "TList"

    def random(self, rng: Random, limits: Limits) -> list[Any]:
        return [one for one in super().random(rng, limits) if one is not None]
