"""Compare a value that ROOT reads with the written value, allowing for rounding, order and duplicate keys."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from tests.peers.generator.collections_of_root import Objects
from tests.peers.generator.compare import difference, fits
from tests.peers.generator.member_kinds import NeverNull
from tests.peers.generator.root_classes import RootClass
from tests.peers.generator.values import Class, Container, CountedArray, FixedArray, Kind, Packed, Pair, Pointer


@singledispatch
def resembles(kind: Kind, got: Any, put_in: Any) -> bool:
    """Return whether `got` equals `put_in`, apart from information that files do not store for this kind."""
    return difference(kind, got, put_in) is None


@resembles.register
def _(kind: Packed, got: Any, put_in: Any) -> bool:
    return True


@resembles.register
def _(kind: Class, got: Any, put_in: Any) -> bool:
    members = {member.name: member.kind for member in kind.all_members()}
    return got.keys() == put_in.keys() and all(resembles(members[name], got[name], put_in[name]) for name in got)


@resembles.register
def _(kind: RootClass, got: Any, put_in: Any) -> bool:
    return not kind.is_exact() or resembles.dispatch(Class)(kind, got, put_in)


@resembles.register
def _(kind: Pointer, got: Any, put_in: Any) -> bool:
    if got is None or put_in is None:
        return got is put_in
    return any(resembles(one, got, put_in) for one in kind.classes if fits(one, got) and fits(one, put_in))


@resembles.register
def _(kind: NeverNull, got: Any, put_in: Any) -> bool:
    return resembles(kind.of, got, put_in)


@resembles.register
def _(kind: Pair, got: Any, put_in: Any) -> bool:
    return all(resembles(item, *both) for item, *both in zip(kind.items, got, put_in, strict=True))


@resembles.register
def _(kind: Container, got: Any, put_in: Any) -> bool:
    if not kind.is_keyed:
        return _each(kind.element, got, put_in)
    # Sets and maps sort their keys, and keep only one of several equal keys.
    is_there = bool(got) == bool(put_in) and len(got) <= len(put_in)
    return is_there and all(any(resembles(kind.element, one, other) for other in put_in) for one in got)


@resembles.register
def _(kind: FixedArray, got: Any, put_in: Any) -> bool:
    inner = FixedArray(kind.of, kind.extents[1:]) if len(kind.extents) > 1 else kind.of
    return _each(inner, got, put_in)


@resembles.register
def _(kind: CountedArray, got: Any, put_in: Any) -> bool:
    return _each(kind.of, got, put_in)


@resembles.register
def _(kind: Objects, got: Any, put_in: Any) -> bool:
    return _each(kind.pointer, got, put_in)


def _each(kind: Kind, got: Any, put_in: Any) -> bool:
    return len(got) == len(put_in) and all(resembles(kind, *both) for both in zip(got, put_in, strict=True))
