"""Types of values: their C++ names, random values, and the encoding of values in the archive of `archive.h`.

Values have the form of awkward's `to_list`: numbers, strings, lists, dicts of members, and None for missing values.
Pairs and tuples are Python tuples.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from random import Random
from typing import Any

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _-./:#[]"
SPECIAL_FLOATS = (0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e-40, 3.4028234663852886e38)


class Reader:
    """A reader of the bytes of an archive."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def number(self, code: str) -> Any:
        value = struct.unpack_from("<" + code, self.data, self.at)[0]
        self.at += struct.calcsize("<" + code)
        return value

    def take(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]


@dataclass
class Limits:
    """Size limits of random values: the number of elements in a container, and of letters in a string."""

    elements: int = 5
    letters: int = 12

    def within(self) -> Limits:
        """Return the limits for the elements of a container."""
        return Limits(max(1, self.elements * 2 // 3), self.letters)


class Kind(ABC):
    """A type. `cpp` is its name in C++."""

    cpp: str

    @abstractmethod
    def random(self, rng: Random, limits: Limits) -> Any:
        """Return a random value."""

    @abstractmethod
    def pack(self, value: Any, out: bytearray) -> None:
        """Append the bytes of a value."""

    @abstractmethod
    def unpack(self, reader: Reader) -> Any:
        """Read the next value."""

    @abstractmethod
    def form(self) -> str:
        """Return the form of an array of this kind, in the notation of `compare.form_of`. `?` stands for parts that
        depend on the values.
        """

    def parts(self) -> list[Kind]:
        """Return the kinds that this kind directly contains."""
        return []

    def everything(self) -> list[Kind]:
        """Return this kind and all kinds in it. Each kind comes after the kinds that it contains."""
        return [kind for part in self.parts() for kind in part.everything()] + [self]

    def is_exact(self) -> bool:
        """Return whether ROOT stores values bit by bit and in order."""
        return all(part.is_exact() for part in self.parts())


@dataclass(eq=False)
class Number(Kind):
    """A number: its C++ name, its format character for `struct`, and its form."""

    cpp: str
    code: str
    dtype: str

    def random(self, rng: Random, limits: Limits) -> Any:
        if self.code == "?":
            return rng.random() < 0.5
        if self.code in "fd":
            value = rng.choice(SPECIAL_FLOATS) if rng.random() < 0.1 else rng.uniform(-1000, 1000)
            return struct.unpack("<" + self.code, struct.pack("<" + self.code, value))[0]
        bits = 8 * struct.calcsize("<" + self.code)
        value = rng.getrandbits(rng.randint(1, bits))
        return value - (1 << bits) if self.code.islower() and value >= 1 << (bits - 1) else value

    def pack(self, value: Any, out: bytearray) -> None:
        out += struct.pack("<" + self.code, value)

    def unpack(self, reader: Reader) -> Any:
        return reader.number(self.code)

    def form(self) -> str:
        return self.dtype


class Count(Number):
    """A count, which may be signed or unsigned, depending on the reader."""

    def form(self) -> str:
        return "?"


COUNT = Count("int", "i", "i4")
NUMBERS = [
    Number("bool", "?", "b1"), Number("char", "b", "i1"), Number("signed char", "b", "i1"),
    Number("unsigned char", "B", "u1"), Number("short", "h", "i2"), Number("unsigned short", "H", "u2"),
    Number("int", "i", "i4"), Number("unsigned int", "I", "u4"), Number("long", "q", "i8"),
    Number("unsigned long", "Q", "u8"), Number("Long64_t", "q", "i8"), Number("ULong64_t", "Q", "u8"),
    Number("float", "f", "f4"), Number("double", "d", "f8"),
]  # fmt: skip
# The same numbers under typedef names of ROOT and of a family (cpp.py), used in members and template arguments.
NAMED_NUMBERS = [
    Number("Char_t", "b", "i1"), Number("UChar_t", "B", "u1"), Number("Short_t", "h", "i2"), Number("Int_t", "i", "i4"),
    Number("UInt_t", "I", "u4"), Number("Float_t", "f", "f4"), Number("Double_t", "d", "f8"),
    Number("int64_t", "q", "i8"), Number("uint16_t", "H", "u2"),
]  # fmt: skip
INT, FLOAT, DOUBLE = (next(n for n in NUMBERS if n.cpp == name) for name in ("int", "float", "double"))
# Numbers for keys and for elements of sets: only integers, because floats may be NaN.
KEYS = [number for number in NUMBERS if number.code not in "fd?"]


@dataclass(eq=False)
class Packed(Kind):
    """Double32_t or Float16_t. A member of a class may declare a range and a number of bits in its comment."""

    cpp: str
    low: float | None = None
    high: float | None = None
    bits: int | None = None

    @property
    def code(self) -> str:
        return "d" if self.cpp == "Double32_t" else "f"

    def comment(self) -> str:
        """The comment after the member."""
        if self.low is None and self.bits is None:
            return ""
        bits = "" if self.bits is None else f",{self.bits}"
        return f"//[{self.low if self.low is not None else 0},{self.high if self.high is not None else 0}{bits}]"

    def random(self, rng: Random, limits: Limits) -> Any:
        low, high = (self.low, self.high) if self.low is not None else (-50.0, 50.0)
        value = rng.choice(
            (low, high, 0.0 if low <= 0 <= high else low, rng.uniform(low, high), rng.uniform(low, high))
        )
        return struct.unpack("<f", struct.pack("<f", value))[0] if self.code == "f" else value

    def pack(self, value: Any, out: bytearray) -> None:
        out += struct.pack("<" + self.code, value)

    def unpack(self, reader: Reader) -> Any:
        return reader.number(self.code)

    def form(self) -> str:
        return "f8" if self.code == "d" else "f4"

    def is_exact(self) -> bool:
        return False


@dataclass(eq=False)
class Text(Kind):
    """std::string or TString."""

    cpp: str = "std::string"

    def random(self, rng: Random, limits: Limits) -> str:
        size = rng.choice((0, 1, rng.randint(0, limits.letters), 254, 255, 300) if rng.random() < 0.1 else (3, 7, 1))
        return "".join(rng.choices(LETTERS, k=size)) + ("\u00e9" if rng.random() < 0.05 else "")

    def pack(self, value: str, out: bytearray) -> None:
        data = value.encode()
        out += struct.pack("<I", len(data)) + data

    def unpack(self, reader: Reader) -> str:
        return reader.take(reader.number("I")).decode()

    def form(self) -> str:
        return "string"


@dataclass(eq=False)
class FixedArray(Kind):
    """A fixed-size array, as a C array member or a std::array. The outermost extent comes first."""

    of: Kind
    extents: tuple[int, ...]
    is_std: bool = False

    @property
    def cpp(self) -> str:  # type: ignore[override]
        text = self.of.cpp
        for extent in reversed(self.extents):
            text = f"std::array<{text},{extent}>"
        return text if self.is_std else self.of.cpp

    def random(self, rng: Random, limits: Limits) -> Any:
        return self._nested(lambda: self.of.random(rng, limits), self.extents)

    def _nested(self, one: Any, extents: tuple[int, ...]) -> Any:
        return [self._nested(one, extents[1:]) for _ in range(extents[0])] if extents else one()

    def pack(self, value: Any, out: bytearray) -> None:
        self._pack(value, len(self.extents), out)

    def _pack(self, value: Any, depth: int, out: bytearray) -> None:
        if depth == 0:
            self.of.pack(value, out)
        else:
            for one in value:
                self._pack(one, depth - 1, out)

    def unpack(self, reader: Reader) -> Any:
        return self._nested(lambda: self.of.unpack(reader), self.extents)

    def form(self) -> str:
        return "".join(f"{extent}*" for extent in self.extents) + self.of.form()

    def parts(self) -> list[Kind]:
        return [self.of]


@dataclass(eq=False)
class Container(Kind):
    """A standard library container with one element type, or a map with keys and values."""

    template: str
    of: Kind
    key: Kind | None = None

    @property
    def cpp(self) -> str:  # type: ignore[override]
        inner = self.of.cpp if self.key is None else f"{self.key.cpp},{self.of.cpp}"
        return f"{self.template}<{inner}>"

    @property
    def element(self) -> Kind:
        """The kind of the elements. For a map, a pair."""
        return self.of if self.key is None else Pair([self.key, self.of])

    @property
    def is_unordered(self) -> bool:
        """Whether the order of the elements is unspecified."""
        return "unordered" in self.template

    @property
    def is_keyed(self) -> bool:
        return "set" in self.template or "map" in self.template

    def random(self, rng: Random, limits: Limits) -> list[Any]:
        within = limits.within()
        return [self.element.random(rng, within) for _ in range(rng.randint(0, limits.elements))]

    def pack(self, value: list[Any], out: bytearray) -> None:
        out += struct.pack("<I", len(value))
        for one in value:
            self.element.pack(one, out)

    def unpack(self, reader: Reader) -> list[Any]:
        return [self.element.unpack(reader) for _ in range(reader.number("I"))]

    def form(self) -> str:
        return "var*" + self.element.form()

    def parts(self) -> list[Kind]:
        return [self.of] if self.key is None else [self.key, self.of]

    def is_exact(self) -> bool:
        return not self.is_keyed and super().is_exact()


@dataclass(eq=False)
class Pair(Kind):
    """A std::pair or std::tuple."""

    items: list[Kind]
    template: str = "std::pair"

    @property
    def cpp(self) -> str:  # type: ignore[override]
        return f"{self.template}<{','.join(item.cpp for item in self.items)}>"

    def random(self, rng: Random, limits: Limits) -> tuple[Any, ...]:
        return tuple(item.random(rng, limits) for item in self.items)

    def pack(self, value: tuple[Any, ...], out: bytearray) -> None:
        for item, one in zip(self.items, value, strict=True):
            item.pack(one, out)

    def unpack(self, reader: Reader) -> tuple[Any, ...]:
        return tuple(item.unpack(reader) for item in self.items)

    def form(self) -> str:
        return f"({','.join(item.form() for item in self.items)})"

    def parts(self) -> list[Kind]:
        return self.items


@dataclass(eq=False)
class Bits(Kind):
    """A std::bitset."""

    size: int

    @property
    def cpp(self) -> str:  # type: ignore[override]
        return f"std::bitset<{self.size}>"

    def random(self, rng: Random, limits: Limits) -> list[bool]:
        return [rng.random() < 0.5 for _ in range(self.size)]

    def pack(self, value: list[bool], out: bytearray) -> None:
        out += bytes(value)

    def unpack(self, reader: Reader) -> list[bool]:
        return [byte != 0 for byte in reader.take(self.size)]

    def form(self) -> str:
        return "bits"


@dataclass(eq=False)
class Member:
    """A member of a class."""

    name: str
    kind: Kind
    # Name of the member with the array length, if this member is a variable-size array.
    counter: str | None = None
    # Whether ROOT stores it.
    is_stored: bool = True


@dataclass(eq=False)
class Class(Kind):
    """A class of a family."""

    cpp: str
    members: list[Member]
    bases: list[Class] = field(default_factory=list)
    is_tobject: bool = False
    version: int | None = None
    is_polymorphic: bool = False

    def ancestors(self) -> list[Class]:
        """Return all direct and indirect base classes."""
        return [one for base in self.bases for one in (base, *base.ancestors())]

    def all_members(self) -> list[Member]:
        """Return all members that ROOT stores. Members of base classes come first."""
        own = [member for member in self.members if member.is_stored]
        return [member for base in self.bases for member in base.all_members()] + own

    def random(self, rng: Random, limits: Limits) -> dict[str, Any]:
        value: dict[str, Any] = {}
        for member in self.all_members():
            one = member.kind.random(rng, limits)
            value[member.name] = one
            if member.counter is not None:
                value[member.counter] = len(one)
        return value

    def pack(self, value: dict[str, Any], out: bytearray) -> None:
        for member in self.all_members():
            member.kind.pack(value[member.name], out)

    def unpack(self, reader: Reader) -> dict[str, Any]:
        return {member.name: member.kind.unpack(reader) for member in self.all_members()}

    def form(self) -> str:
        members = sorted(f"{member.name}:{member.kind.form()}" for member in self.all_members())
        # Fixed-size arrays of enumerations have a column even if ROOT does not store them: without objects, a reader
        # cannot know that they are missing.
        classes = [self, *self.ancestors()]
        members += [f"{member.name}:?" for one in classes for member in one.members if not member.is_stored]
        return "{" + ",".join(members) + "}"

    def parts(self) -> list[Kind]:
        return [*self.bases, *(member.kind for member in self.members)]


def heirs(one: Class, classes: list[Class]) -> list[Class]:
    """Return a class and all classes that inherit from it: the possible classes of objects behind a pointer to the
    class.
    """
    if not (one.is_polymorphic or one.is_tobject):
        return [one]
    return [one, *(other for other in classes if one in other.ancestors())]


@dataclass(eq=False)
class CountedArray(Kind):
    """A variable-size array of numbers or objects, whose length is another member."""

    of: Kind

    @property
    def cpp(self) -> str:  # type: ignore[override]
        return f"{self.of.cpp}*"

    def random(self, rng: Random, limits: Limits) -> list[Any]:
        return [self.of.random(rng, limits) for _ in range(rng.randint(0, limits.elements))]

    def pack(self, value: list[Any], out: bytearray) -> None:
        out += struct.pack("<I", len(value))
        for one in value:
            self.of.pack(one, out)

    def unpack(self, reader: Reader) -> list[Any]:
        return [self.of.unpack(reader) for _ in range(reader.number("I"))]

    def form(self) -> str:
        return "var*" + self.of.form()

    def parts(self) -> list[Kind]:
        return [self.of]


@dataclass(eq=False)
class Pointer(Kind):
    """A pointer that is null or points to an object of one of several classes. Its value is the object's value."""

    declared: Class
    classes: list[Class]

    @property
    def cpp(self) -> str:  # type: ignore[override]
        return f"{self.declared.cpp}*"

    def random(self, rng: Random, limits: Limits) -> Any:
        number = rng.randint(0, len(self.classes))
        return None if number == 0 else Pointed(number, self.classes[number - 1].random(rng, limits))

    def pack(self, value: Any, out: bytearray) -> None:
        if value is None:
            out += b"\0"
        else:
            out.append(value.number)
            self.classes[value.number - 1].pack(value.value, out)

    def unpack(self, reader: Reader) -> Any:
        number = reader.number("B")
        return None if number == 0 else self.classes[number - 1].unpack(reader)

    def form(self) -> str:
        return "?"

    def parts(self) -> list[Kind]:
        return [self.declared, *self.classes]


@dataclass(eq=False)
class Holding(Kind):
    """A wrapper around another kind, with the same value."""

    of: Kind

    def random(self, rng: Random, limits: Limits) -> Any:
        return self.of.random(rng, limits)

    def pack(self, value: Any, out: bytearray) -> None:
        self.of.pack(value, out)

    def unpack(self, reader: Reader) -> Any:
        return self.of.unpack(reader)

    def form(self) -> str:
        return self.of.form()


@dataclass
class Pointed:
    """An object for a pointer to point to: the number of its class, and its value."""

    number: int
    value: Any
