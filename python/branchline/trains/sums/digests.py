"""Digests of wagons' outputs: outputs with equal digests are bitwise identical."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Protocol

import awkward as ak
import boost_histogram
import cloudpickle
import numpy as np


class _Digest(Protocol):
    def update(self, content: bytes | memoryview, /) -> None: ...


def digest_of(output: object) -> str:
    """Return a SHA-256 digest of an output's types, shapes and bytes.

    The digest depends on the order of lists, but not on the order of mappings and sets. Objects of unknown classes are
    represented by their attributes or, without attributes, by their pickled form.
    """
    digest = hashlib.sha256()
    _feed(digest, output)
    return digest.hexdigest()


def _feed(digest: _Digest, value: Any) -> None:
    kind = type(value)
    digest.update(f"<{kind.__module__}.{kind.__qualname__}>".encode())
    if isinstance(value, boost_histogram.Histogram):
        for axis in value.axes:
            digest.update(repr(axis).encode())
        _feed_array(digest, value.view(flow=True))
    elif isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
        _feed_array(digest, value)
    elif isinstance(value, ak.Array | ak.Record):
        _feed_awkward(digest, value)
    elif isinstance(value, Mapping):
        _feed_sorted(digest, [(key, one) for key, one in value.items()])
    elif isinstance(value, AbstractSet):
        _feed_sorted(digest, list(value))
    elif isinstance(value, list | tuple):
        for one in value:
            _feed(digest, one)
    elif kind.__module__.partition(".")[0] == "pandas" and hasattr(value, "to_numpy"):
        _feed_pandas(digest, value)
    elif isinstance(value, str | bytes | int | float | complex | None):
        # repr() of a float is exact, except for the payload of a NaN, which has no meaning.
        digest.update(repr(value).encode())
    elif attributes := getattr(value, "__dict__", None):
        _feed_sorted(digest, list(attributes.items()))
    else:
        digest.update(cloudpickle.dumps(value))
    digest.update(b"</>")


def _feed_array(digest: _Digest, array: Any) -> None:
    digest.update(f"{array.dtype.descr}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array).tobytes())
    if isinstance(array, np.ma.MaskedArray):
        digest.update(np.ascontiguousarray(np.ma.getmaskarray(array)).tobytes())
        digest.update(np.asarray(array.fill_value).tobytes())


def _feed_awkward(digest: _Digest, array: Any) -> None:
    packed = ak.to_packed(ak.Array([array]) if isinstance(array, ak.Record) else array)
    form, length, buffers = ak.to_buffers(packed)
    digest.update(f"{form.to_json()}{length}".encode())
    for name in sorted(buffers):
        digest.update(name.encode())
        _feed_array(digest, np.asarray(buffers[name]))


def _feed_pandas(digest: _Digest, value: Any) -> None:
    """Add the columns of a frame, with their names and the index, which determine all other contents."""
    if value.ndim > 1:
        _feed(digest, [value.index, list(value.columns), [value.iloc[:, place] for place in range(value.shape[1])]])
        return
    array = value.to_numpy()
    digest.update(f"{value.dtype}".encode())
    _feed(digest, [value.name, array.tolist() if array.dtype.hasobject else array])
    if hasattr(value, "index"):
        _feed(digest, value.index)


def _feed_sorted(digest: _Digest, items: Iterable[object]) -> None:
    for one in sorted(digest_of(item) for item in items):
        digest.update(one.encode())
