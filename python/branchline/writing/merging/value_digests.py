"""Digests of branch values, which do not depend on how the values are stored."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import awkward as ak
import numpy as np

from branchline.reading.access import Access
from branchline.reading.trees.iteration import iterate

#: Approximate size of the values that are read at a time.
STEP_SIZE = "100 MB"


@dataclass(frozen=True)
class BranchDigest:
    """A branch's number of entries, and the hexadecimal digest of its values."""

    entries: int
    digest: str


class BranchHasher:
    """Computes the digest of a branch incrementally, from the numbers and from the list lengths at each level."""

    def __init__(self, *, of_any_integer: bool = False) -> None:
        """Create a hasher. With ``of_any_integer``, it treats integers of all types as `int64`."""
        self.entries = 0
        self._of_any_integer = of_any_integer
        self._streams: dict[str, hashlib.blake2b] = {}

    def add(self, values: ak.Array) -> None:
        """Add the values of the next entries."""
        self.entries += len(values)
        if len(values) == 0:
            return  # Without entries, the type is unknown.
        for name, numbers in _levels(ak.to_packed(values).layout, ""):
            if self._of_any_integer and numbers.dtype.kind in "iu":
                name, numbers = name.rpartition(":")[0], numbers.astype(np.int64)
            stream = self._streams.setdefault(name, hashlib.blake2b(digest_size=16))
            stream.update(np.ascontiguousarray(numbers).data)

    def value(self) -> BranchDigest:
        """Return the digest of all added values."""
        whole = hashlib.blake2b(str(self.entries).encode(), digest_size=16)
        for name, stream in sorted(self._streams.items()):
            whole.update(name.encode() + b"\0" + stream.digest())
        return BranchDigest(self.entries, whole.hexdigest())


def _levels(layout: ak.contents.Content, name: str) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name and values of each buffer: list lengths and contents, which do not depend on the chunking."""
    if layout.is_numpy and layout.data.ndim > 1:
        yield from _levels(layout.to_RegularArray(), name)
    elif layout.is_numpy:
        # TTrees store half-precision numbers as floats.
        numbers = layout.data.astype(np.float32) if layout.dtype == np.float16 else layout.data
        yield f"{name}:{numbers.dtype}", numbers
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
        # The lists are empty, so the content type is unknown.
        yield f"{name}:", np.zeros(0)


def branch_digests(
    files: Iterable[str],
    tree: str,
    branches: Iterable[str],
    access: Access | None = None,
    counters: Collection[str] = (),
) -> dict[str, BranchDigest]:
    """Compute the digest of each branch in ``branches`` over all files, in order.

    The integer type of ``counters`` is ignored, because RNTuples use a different type for counters than TTrees. Files
    may contain the tree as a TTree or as an RNTuple. Raises read errors.
    """
    hashers = {name: BranchHasher(of_any_integer=name in counters) for name in branches}
    if hashers:
        sources = [f"{path}:{tree}" for path in files]
        for step in iterate(sources, list(hashers), step_size=STEP_SIZE, access=access):
            for name, hasher in hashers.items():
                hasher.add(step[name])
    return {name: hasher.value() for name, hasher in hashers.items()}
