"""Parts of objects in ROOT's bytes, as TBufferFile streams them: byte counts, names, texts and arrays."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy

#: Marks a byte count, and the first object of a class (TBufferFile's kByteCountMask and kNewClassTag).
BYTE_COUNT_MASK, NEW_CLASS_TAG = 0x40000000, 0xFFFFFFFF
#: A byte count has 30 bits.
OBJECT_BYTES_MAX = 2**30 - 1
#: TObject's bits for an object on the heap, and for one that a directory takes care of (kIsOnHeap, kMustCleanup).
ON_HEAP, IN_DIRECTORY = 0x01000000, 0x01000008


def root_list(objects: Sequence[bytes]) -> bytes:
    """A TList of objects with no option of drawing."""
    return counted(
        5, root_object(ON_HEAP), root_string(""), struct.pack(">i", len(objects)), *(one + b"\0" for one in objects)
    )


def pointed(class_name: str, content: bytes) -> bytes:
    """An object that a pointer refers to, with the name of its class."""
    return with_count(struct.pack(">I", NEW_CLASS_TAG) + class_name.encode() + b"\0" + content)


def counted(version: int, *parts: bytes) -> bytes:
    """The version of a class and its members, after the number of their bytes."""
    return with_count(struct.pack(">h", version) + b"".join(parts))


def with_count(content: bytes) -> bytes:
    return struct.pack(">I", BYTE_COUNT_MASK | len(content)) + content


def named(name: str, title: str, bits: int = ON_HEAP) -> bytes:
    return counted(1, root_object(bits), root_string(name), root_string(title))


def root_object(bits: int, unique_id: int = 0) -> bytes:
    return struct.pack(">hII", 1, unique_id, bits)


def root_string(text: str) -> bytes:
    """A TString; a length of 255 or more takes four bytes after the mark 255."""
    content = text.encode("utf-8", errors="backslashreplace")
    length = bytes([len(content)]) if len(content) < 255 else struct.pack(">Bi", 255, len(content))
    return length + content


def doubles(values: Sequence[float]) -> bytes:
    return struct.pack(f">{len(values)}d", *values)


def doubles_array(values: numpy.ndarray) -> bytes:
    """A TArrayD, in which x runs fastest."""
    return struct.pack(">i", values.size) + values.astype(">f8").tobytes(order="F")


def numbers_array(values: numpy.ndarray) -> bytes:
    """A TArrayD, TArrayF, TArrayI or the like, by the type of the values: numbers in one dimension."""
    return struct.pack(">i", values.size) + values.astype(values.dtype.newbyteorder(">")).tobytes()


def cells_array(shape: Sequence[int], values: numpy.ndarray) -> bytes:
    """A TNDArrayT<double> (version 2): the cells in the volume that each axis spans, then the values, if there are any,
    of which the last axis runs fastest. Both are vectors.
    """
    spans = numpy.cumprod([1, *reversed(shape)])[::-1]
    sizes = counted(10, struct.pack(">i", spans.size), spans.astype(">i8").tobytes())
    content = counted(10, struct.pack(">i", values.size), values.astype(">f8").tobytes(order="C"))
    return counted(2, counted(2, root_object(0), sizes), content)
