"""Random classes and types of the fields of RNTuples."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.peers.generator.families import MAPS, Family
from tests.peers.generator.member_kinds import Enumeration
from tests.peers.generator.ntuple_kinds import Atomic, Maybe, Variant
from tests.peers.generator.values import (
    INT,
    KEYS,
    NAMED_NUMBERS,
    NUMBERS,
    Bits,
    Class,
    Container,
    FixedArray,
    Kind,
    Member,
    Number,
    Packed,
    Pair,
    Text,
)


def _in_fields(numbers: list[Number]) -> list[Number]:
    """Return the number kinds for fields. A char field stores characters, which are unsigned."""
    return [Number(one.cpp, "B", "u1") if one.cpp in ("char", "Char_t") else one for one in numbers]


FIELD_NUMBERS, FIELD_NAMED_NUMBERS = _in_fields(NUMBERS), _in_fields(NAMED_NUMBERS)
FIELD_KEYS = [number for number in FIELD_NUMBERS if number.cpp in {key.cpp for key in KEYS}]
SETS = ("std::set", "std::multiset", "std::unordered_set", "std::unordered_multiset")


# Type names that RNTuple maps to the same type. For example, long and long long are both std::int64_t.
SAME = (
    ("ULong64_t", "unsigned long"),
    ("Long64_t", "long"),
    ("int64_t", "long"),
    ("long long", "long"),
    ("Double32_t", "double"),
    ("Double_t", "double"),
    ("Float_t", "float"),
    ("uint16_t", "unsigned short"),
    ("UInt_t", "unsigned int"),
    ("Int_t", "int"),
    ("Short_t", "short"),
    ("UChar_t", "unsigned char"),
    ("Char_t", "char"),
)


def _type_of(cpp: str) -> str:
    for name, other in SAME:
        cpp = cpp.replace(name, other)
    return cpp


class FieldMaker:
    """Draws kinds and classes for RNTuples."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.family = Family(f"n{seed}")

    def number(self) -> Number:
        draw = self.rng.random()
        if draw < 0.15:
            return Enumeration(self.family.namespace, self.rng.choice(list(Enumeration.TYPES)))
        return self.rng.choice(FIELD_NAMED_NUMBERS if draw < 0.25 else FIELD_NUMBERS)

    def key(self) -> Kind:
        of = Enumeration(self.family.namespace, self.rng.choice(list(Enumeration.TYPES)))
        return self.rng.choice((Text(), self.rng.choice(FIELD_KEYS), INT, of))

    def kind(self, depth: int) -> Kind:
        """Draw any copyable kind that a field may have."""
        draw = self.rng.random()
        if depth <= 0 or draw < 0.3:
            return self.number()
        if draw < 0.4:
            return Text()
        if draw < 0.44:
            return Packed("Double32_t")
        if draw < 0.48:
            return Bits(self.rng.randint(1, 130))
        if draw < 0.56:
            template = self.rng.choice(("std::pair", "std::tuple"))
            count = 2 if template == "std::pair" else self.rng.randint(1, 4)
            return Pair([self.kind(depth - 1) for _ in range(count)], template)
        if draw < 0.62:
            return FixedArray(self.kind(depth - 1), (self.rng.randint(1, 4),), is_std=True)
        if draw < 0.68:
            held = self.kind(depth - 1)
            # ROOT does not support optional variants.
            return held if isinstance(held, Variant) else Maybe(held, "std::optional")
        if draw < 0.74:
            return Variant(self.alternatives(depth - 1))
        if draw < 0.82 and self.family.classes:
            return self.rng.choice(self.family.classes)
        return self.container(depth - 1)

    def alternatives(self, depth: int) -> list[Kind]:
        """Draw kinds with different types."""
        drawn = [self.kind(depth) for _ in range(self.rng.randint(1, 4))]
        return list({_type_of(one.cpp): one for one in drawn}.values())

    def container(self, depth: int) -> Kind:
        draw = self.rng.random()
        if draw < 0.65:
            return Container(self.rng.choice(("std::vector", "std::vector", "ROOT::VecOps::RVec")), self.kind(depth))
        if draw < 0.8:
            return Container(self.rng.choice(SETS), self.key())
        return Container(self.rng.choice(MAPS), self.kind(depth), self.key())

    def member(self) -> Kind:
        """Draw the kind of a class member. It is never atomic, because containers copy the objects."""
        if self.rng.random() < 0.12:
            return FixedArray(self.number(), self.rng.choice(((3,), (2, 2))))
        return self.kind(2)

    def add(self, name: str, count: int, **others: Any) -> Class:
        prefix = name[0].lower()
        members = [Member(f"{prefix}_key", INT)] + [Member(f"{prefix}{i}", self.member()) for i in range(count)]
        one = Class(f"{self.family.namespace}::{name}", members, **others)
        self.family.classes.append(one)
        return one

    def make(self) -> Family:
        rng, family = self.rng, self.family
        base = self.add("Base", rng.randint(1, 3))
        self.add("Derived", rng.randint(1, 3), bases=[base])
        self.add("Single", rng.randint(2, 4), version=3)
        self.add("Whole", rng.randint(3, 6))
        tops: list[Kind] = [
            *FIELD_NUMBERS,
            Text(),
            Packed("Double32_t"),
            *family.classes,
            Atomic(self.rng.choice(FIELD_NUMBERS)),
        ]
        tops += [Enumeration(family.namespace, name) for name in Enumeration.TYPES]
        tops += [Maybe(rng.choice((Text(), self.number(), *family.classes)), "std::unique_ptr") for _ in range(2)]
        tops += [self.container(3) for _ in range(6)] + [self.kind(3) for _ in range(10)]
        family.tops = list({kind.cpp: kind for kind in tops}.values())
        return family
