"""Digests of the values of branches: equal for equal values, however these lie in their files."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import awkward as ak
import numpy as np

from branchline.reading.access import Access
from branchline.reading.trees.iteration import iterate

#: Values that are read at a time.
STEP_SIZE = "100 MB"


@dataclass(frozen=True)
class BranchDigest:
    """How many entries a branch has, and the digest of their values, as hexadecimal digits."""

    entries: int
    digest: str


class BranchHasher:
    """Takes the digest of a branch step by step: of the lengths of lists at each level, and of the numbers."""

    def __init__(self, *, of_any_integer: bool = False) -> None:
        """With ``of_any_integer`` whole numbers of all types are taken as `int64`."""
        self.entries = 0
        self._of_any_integer = of_any_integer
        self._streams: dict[str, hashlib.blake2b] = {}

    def add(self, values: Any) -> None:
        """Adds the values of the entries that come next."""
        self.entries += len(values)
        if len(values) == 0:
            return  # without entries the type is unknown
        for name, numbers in _levels(ak.to_packed(values).layout, ""):
            if self._of_any_integer and numbers.dtype.kind in "iu":
                name, numbers = name.rpartition(":")[0], numbers.astype(np.int64)
            stream = self._streams.setdefault(name, hashlib.blake2b(digest_size=16))
            stream.update(np.ascontiguousarray(numbers).data)

    def value(self) -> BranchDigest:
        """The digest of what was added."""
        whole = hashlib.blake2b(str(self.entries).encode(), digest_size=16)
        for name, stream in sorted(self._streams.items()):
            whole.update(name.encode() + b"\0" + stream.digest())
        return BranchDigest(self.entries, whole.hexdigest())


def _levels(layout: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The buffers of an array that do not depend on how it was cut: lengths of lists, and what is in them."""
    if layout.is_numpy:
        yield f"{name}:{layout.dtype}", layout.data
    elif layout.is_list and layout.is_regular:
        yield from _levels(layout.content, f"{name}[{layout.size}]")
    elif layout.is_list:
        offsets = layout.to_ListOffsetArray64(True).offsets.data
        yield f"{name}#", np.diff(offsets)
        yield from _levels(layout.content, f"{name}[]")
    elif layout.is_record:
        for field, content in zip(layout.fields, layout.contents, strict=True):
            yield from _levels(content, f"{name}.{field}")
    elif layout.is_union:
        yield f"{name}|", layout.tags.data
        for number, content in enumerate(layout.contents):
            yield from _levels(content, f"{name}|{number}")
    elif layout.is_option:
        yield f"{name}?", layout.mask_as_bool(valid_when=True)
        yield from _levels(ak.to_packed(ak.drop_none(layout, axis=0, highlevel=False), highlevel=False), f"{name}?")
    elif layout.is_indexed:
        yield from _levels(layout.project(), name)
    else:
        # Empty lists, whose content has no known type.
        yield f"{name}:", np.zeros(0)


def branch_digests(
    files: Iterable[str],
    tree: str,
    branches: Iterable[str],
    access: Access | None = None,
    counters: Collection[str] = (),
) -> dict[str, BranchDigest]:
    """The digest of each of these branches of the tree of these files, one after the other. Of ``counters`` only the
    numbers count, and not their type: an RNTuple has one of its own for them.

    Files may hold the tree as a TTree or as an RNTuple. Raises what reading raises.
    """
    hashers = {name: BranchHasher(of_any_integer=name in counters) for name in branches}
    if hashers:
        sources = [f"{path}:{tree}" for path in files]
        for step in iterate(sources, list(hashers), step_size=STEP_SIZE, access=access):
            for name, hasher in hashers.items():
                hasher.add(step[name])
    return {name: hasher.value() for name, hasher in hashers.items()}
