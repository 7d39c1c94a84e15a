"""TClonesArray and TObjArray as kinds."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from tests.peers.generator.values import Class, Container, Kind, Limits, Pointed, Pointer, Reader


@dataclass(eq=False)
class Clones(Container):
    """A TClonesArray of objects of one class."""

    template: str
    of: Class  # type: ignore[assignment]
    is_pointer: bool = False

    @property
    def cpp(self) -> str:  # type: ignore[override]
        return "TClonesArray"

    def form(self) -> str:
        return "?"


class Objects(Kind):
    """A TObjArray of objects of several classes and null pointers."""

    cpp = "TObjArray"

    def __init__(self, classes: list[Class]) -> None:
        self.classes = classes
        self.pointer = Pointer(classes[0], classes)

    def random(self, rng: Random, limits: Limits) -> list[Any]:
        objects = [self.pointer.random(rng, limits.within()) for _ in range(rng.randint(0, limits.elements))]
        # Null pointers after the last object do not belong to the array.
        while objects and objects[-1] is None:
            objects.pop()
        return objects

    def pack(self, value: list[Any], out: bytearray) -> None:
        out += len(value).to_bytes(4, "little")
        for one in value:
            self.pointer.pack(one, out)

    def unpack(self, reader: Reader) -> list[Any]:
        return [self.pointer.unpack(reader) for _ in range(reader.number("I"))]

    def form(self) -> str:
        return "?"

    def parts(self) -> list[Kind]:
        return list(self.classes)


__all__ = ["Clones", "Objects", "Pointed"]
