"""Kinds that only RNTuples hold: optional values, variants and atomic numbers."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from tests.peers.generator.values import Holding, Kind, Limits, Number, Pointed, Reader


@dataclass(eq=False)
class Maybe(Kind):
    """A std::optional or std::unique_ptr."""

    of: Kind
    template: str = "std::optional"

    @property
    def cpp(self) -> str:  # type: ignore[override]
        return f"{self.template}<{self.of.cpp}>"

    def random(self, rng: Random, limits: Limits) -> Any:
        return None if rng.random() < 0.4 else self.of.random(rng, limits)

    def pack(self, value: Any, out: bytearray) -> None:
        out.append(value is not None)
        if value is not None:
            self.of.pack(value, out)

    def unpack(self, reader: Reader) -> Any:
        return self.of.unpack(reader) if reader.number("B") else None

    def form(self) -> str:
        return "?"

    def parts(self) -> list[Kind]:
        return [self.of]


# std::variant_npos as a byte. In entries before a field was added, ROOT's variants have no value.
NO_ALTERNATIVE = 255


@dataclass(eq=False)
class Variant(Kind):
    """A std::variant. Its value is the value of the active alternative."""

    kinds: list[Kind]

    @property
    def cpp(self) -> str:  # type: ignore[override]
        return f"std::variant<{','.join(kind.cpp for kind in self.kinds)}>"

    def random(self, rng: Random, limits: Limits) -> Pointed:
        number = rng.randrange(len(self.kinds))
        return Pointed(number, self.kinds[number].random(rng, limits))

    def pack(self, value: Pointed, out: bytearray) -> None:
        out.append(value.number)
        self.kinds[value.number].pack(value.value, out)

    def unpack(self, reader: Reader) -> Pointed | None:
        number = reader.number("B")
        if number == NO_ALTERNATIVE:
            return None
        return Pointed(number, self.kinds[number].unpack(reader))

    def form(self) -> str:
        return "?"

    def parts(self) -> list[Kind]:
        return self.kinds


@dataclass(eq=False)
class Atomic(Holding):
    """A std::atomic of a number."""

    of: Number

    @property
    def cpp(self) -> str:  # type: ignore[override]
        return f"std::atomic<{self.of.cpp}>"
