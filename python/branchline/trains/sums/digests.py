"""Digests of what wagons return: two outputs with the same digest are the same bit by bit."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import awkward as ak
import boost_histogram
import cloudpickle
import numpy as np


def digest_of(output: Any) -> str:
    """A SHA-256 over types, shapes and bytes. The order of a mapping or a set does not count, that of a list does.

    An object of a class that is not known here counts by its attributes, or by its pickled form if it has none.
    """
    digest = hashlib.sha256()
    _feed(digest, output)
    return digest.hexdigest()


def _feed(digest: Any, value: Any) -> None:
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
        # The text of a float has all its bits, but for those of a NaN, which mean nothing.
        digest.update(repr(value).encode())
    else:
        _feed_other(digest, value)
    digest.update(b"</>")


def _feed_array(digest: Any, array: Any) -> None:
    digest.update(f"{array.dtype.descr}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array).tobytes())
    if isinstance(array, np.ma.MaskedArray):
        digest.update(np.ascontiguousarray(np.ma.getmaskarray(array)).tobytes())
        digest.update(np.asarray(array.fill_value).tobytes())


def _feed_awkward(digest: Any, array: Any) -> None:
    packed = ak.to_packed(ak.Array([array]) if isinstance(array, ak.Record) else array)
    form, length, buffers = ak.to_buffers(packed)
    digest.update(f"{form.to_json()}{length}".encode())
    for name in sorted(buffers):
        digest.update(name.encode())
        _feed_array(digest, np.asarray(buffers[name]))


def _feed_pandas(digest: Any, value: Any) -> None:
    """The columns of a frame with their names and the index: what it holds beside them follows from these."""
    if value.ndim > 1:
        _feed(digest, [value.index, list(value.columns), [value.iloc[:, place] for place in range(value.shape[1])]])
        return
    array = value.to_numpy()
    digest.update(f"{value.dtype}".encode())
    _feed(digest, [value.name, array.tolist() if array.dtype.hasobject else array])
    if hasattr(value, "index"):
        _feed(digest, value.index)


def _feed_sorted(digest: Any, items: list[Any]) -> None:
    for one in sorted(digest_of(item) for item in items):
        digest.update(one.encode())


def _feed_other(digest: Any, value: Any) -> None:
    attributes = getattr(value, "__dict__", None)
    if attributes:
        _feed_sorted(digest, list(attributes.items()))
    else:
        digest.update(cloudpickle.dumps(value))
