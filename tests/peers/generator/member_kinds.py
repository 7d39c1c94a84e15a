"""Kinds that only occur as class members: pointers that are never null, enumerations, C strings, and ROOT lists."""

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
    """A pointer to an object or container that is never null. Its value is the value of the target."""

    # The comment for rootcling. With `->`, ROOT streams the object in place, without its class name.
    comment: str = ""

    @property
    def cpp(self) -> str:  # type: ignore[override]
        return f"{self.of.cpp}*"

    def parts(self) -> list[Kind]:
        return [self.of]


class Enumeration(Number):
    """An enumeration of a family, with a random underlying type."""

    TYPES: ClassVar = {f"Colour{of.dtype.upper()}": of for of in NUMBERS if of.cpp in UNDERLYING_TYPES}

    def __init__(self, namespace: str, name: str) -> None:
        of = self.TYPES[name]
        super().__init__(f"{namespace}::{name}", of.code, of.dtype)

    def form(self) -> str:
        # Files do not describe the integer type of enumerations in container branches, and in members that are not
        # containers.
        return "?"

    @property
    def is_stored_as_member(self) -> bool:
        """Return whether ROOT stores members of this type in a TTree. It neither stores nor describes 64-bit
        enumerations.
        """
        return not self.dtype.endswith("8")

    @property
    def is_stored_in_arrays(self) -> bool:
        """Return whether ROOT stores fixed-size arrays of this type. ROOT describes arrays of all types up to 32 bits,
        but only stores arrays of int.
        """
        return self.dtype == INT.dtype


class OldText(Text):
    """A char*. An empty string is stored as a null pointer."""

    def __init__(self) -> None:
        super().__init__("char*")


class Listed(Objects):
    """A TList of objects of several classes. It contains no null pointers."""

    cpp = "TList"

    def random(self, rng: Random, limits: Limits) -> list[Any]:
        return [one for one in super().random(rng, limits) if one is not None]
