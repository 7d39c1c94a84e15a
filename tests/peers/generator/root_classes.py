"""Kinds for ROOT's own classes. Members have the names in ROOT's streamer infos."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.peers.generator.values import (
    COUNT,
    DOUBLE,
    FLOAT,
    INT,
    NUMBERS,
    Class,
    Container,
    Kind,
    Limits,
    Member,
    Number,
    Reader,
    Text,
)


@dataclass(eq=False)
class RootClass(Class):
    """A class of ROOT, which already has a dictionary."""

    # Whether ROOT returns the values unchanged. For example, angles are normalized to their range.
    keeps: bool = True

    def is_exact(self) -> bool:
        return self.keeps


@dataclass(eq=False)
class NumberArray(Container):
    """A TArray."""

    @property
    def cpp(self) -> str:  # type: ignore[override]
        return self.template


class Date(Number):
    """The packed 32-bit number in a TDatime."""

    def random(self, rng: Random, limits: Limits) -> int:
        when = (rng.randint(0, 63), rng.randint(1, 12), rng.randint(1, 28), rng.randint(0, 23), rng.randint(0, 59))
        year, month, day, hour, minute = when
        return year << 26 | month << 22 | day << 17 | hour << 12 | minute << 6 | rng.randint(0, 59)


class Reference(Number):
    """The ID of the object that a TRef refers to. The written value only says whether the TRef refers to an object; the
    value read is the ID.
    """

    def random(self, rng: Random, limits: Limits) -> int:
        return rng.randint(0, 1)

    def unpack(self, reader: Reader) -> Any:
        return struct.unpack("<II", reader.take(8))[1]

    def is_exact(self) -> bool:
        return False


def _members(kind: Kind, *names: str) -> list[Member]:
    return [Member(name, kind) for name in names]


def _lorentz(coordinates: str, scalar: Number, names: tuple[str, ...], *, keeps: bool) -> RootClass:
    inner = f"ROOT::Math::{coordinates}<{scalar.cpp}>"
    members = [Member("fCoordinates", RootClass(inner, _members(scalar, *names)))]
    return RootClass(f"ROOT::Math::LorentzVector<{inner}>", members, keeps=keeps)


NAMED = RootClass("TNamed", _members(Text("TString"), "fName", "fTitle"), is_tobject=True)
OBJ_STRING = RootClass("TObjString", _members(Text("TString"), "fString"), is_tobject=True)
VECTOR2 = RootClass("TVector2", _members(DOUBLE, "fX", "fY"), is_tobject=True)
VECTOR3 = RootClass("TVector3", _members(DOUBLE, "fX", "fY", "fZ"), is_tobject=True)
LORENTZ = RootClass("TLorentzVector", [Member("fP", VECTOR3), Member("fE", DOUBLE)], is_tobject=True)
CARTESIAN = _lorentz("PxPyPzE4D", DOUBLE, ("fX", "fY", "fZ", "fT"), keeps=True)
CYLINDRICAL = _lorentz("PtEtaPhiM4D", FLOAT, ("fPt", "fEta", "fPhi", "fM"), keeps=False)
DATIME = RootClass("TDatime", [Member("fDatime", Date("unsigned int", "I", "u4"))])
REF = RootClass("TRef", [Member("ref", Reference("unsigned int", "I", "u4"))], is_tobject=True, keeps=False)


class Matrix(RootClass):
    """A TMatrixD of any shape."""

    ORDER = ("fNrows", "fNcols", "fRowLwb", "fColLwb", "fNelems", "fNrowIndex")

    def __init__(self) -> None:
        numbers = [Member("fNelems", COUNT), *_members(INT, "fNrows", "fNcols", "fRowLwb", "fColLwb", "fNrowIndex")]
        elements = Member("fElements", Container("std::vector", DOUBLE))
        numbers = [next(one for one in numbers if one.name == name) for name in self.ORDER]
        super().__init__("TMatrixT<double>", [*numbers, Member("fTol", DOUBLE), elements], is_tobject=True, keeps=False)

    def random(self, rng: Random, limits: Limits) -> Any:
        rows, columns = rng.randint(0, limits.elements), rng.randint(0, limits.elements)
        rows, columns = (rows, columns) if rows and columns else (0, 0)
        value = super().random(rng, limits)
        value |= {"fNrows": rows, "fNcols": columns, "fRowLwb": 0, "fColLwb": 0, "fNelems": rows * columns}
        return value | {"fElements": [DOUBLE.random(rng, limits) for _ in range(rows * columns)]}


class ColumnVector(RootClass):
    """A TVectorD of any length."""

    def __init__(self) -> None:
        elements = Member("fElements", Container("std::vector", DOUBLE))
        super().__init__(
            "TVectorT<double>", [Member("fNrows", COUNT), Member("fRowLwb", INT), elements], is_tobject=True
        )

    def random(self, rng: Random, limits: Limits) -> Any:
        elements = [DOUBLE.random(rng, limits) for _ in range(rng.randint(0, limits.elements))]
        return {"fNrows": len(elements), "fRowLwb": 0, "fElements": elements}


MATRICES = [Matrix(), ColumnVector()]
ARRAYS = [
    NumberArray(f"TArray{letter}", next(number for number in NUMBERS if number.cpp == name))
    for letter, name in (("D", "double"), ("F", "float"), ("I", "int"), ("S", "short"))
]
OBJECTS = [NAMED, OBJ_STRING, VECTOR2, VECTOR3, LORENTZ]
ROOT_CLASSES = [*OBJECTS, CARTESIAN, CYLINDRICAL, DATIME]
