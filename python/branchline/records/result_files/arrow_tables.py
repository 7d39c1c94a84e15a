"""Small tables for Arrow, made of the bytes of their columns.

Arrow asks pandas about each list that it is given, and loads it for that: 0.35 s of CPU for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow


def table_of(columns: Mapping[str, Sequence[Any]], schema: pyarrow.Schema) -> pyarrow.Table:
    """A table with these columns of texts, numbers of 64 bits, and None for those that miss.

    What UTF-8 cannot hold of a text, as in names of files in no encoding, is escaped as in job.json. Raises KeyError
    for a kind of column that is none of these.
    """
    import pyarrow

    return pyarrow.Table.from_arrays([_column(columns[one.name], one.type) for one in schema], schema=schema)


def _column(values: Sequence[Any], kind: pyarrow.DataType) -> pyarrow.Array:
    import numpy as np
    import pyarrow

    valid = np.array([one is not None for one in values], bool)
    there = pyarrow.py_buffer(np.packbits(valid, bitorder="little"))
    if kind == pyarrow.string():
        texts = [b"" if one is None else one.encode("utf-8", errors="backslashreplace") for one in values]
        ends = np.fromiter(accumulate(map(len, texts), initial=0), np.int32, len(texts) + 1)
        buffers = [there, pyarrow.py_buffer(ends), pyarrow.py_buffer(b"".join(texts))]
    else:
        dtype = {pyarrow.float64(): np.float64, pyarrow.int64(): np.int64}[kind]
        buffers = [there, pyarrow.py_buffer(np.array([0 if one is None else one for one in values], dtype))]
    return pyarrow.Array.from_buffers(kind, len(values), buffers)
