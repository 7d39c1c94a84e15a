"""Encodes the parts of objects in ROOT's binary format (TBufferFile): byte counts, names, strings and arrays."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO

import numpy

from branchline.base.array_types import Floats
from branchline.errors import UnsupportedBranchError

#: BYTE_COUNT_MASK: flag of a byte count (TBufferFile's kByteCountMask). NEW_CLASS_TAG: tag of the first object of a
#: class (kNewClassTag).
BYTE_COUNT_MASK, NEW_CLASS_TAG = 0x40000000, 0xFFFFFFFF
#: Maximum size of an object, since ROOT's byte counts have 30 bits.
OBJECT_BYTES_MAX = 2**30 - 1
#: Maximum number of array elements converted at a time. A histogram may fill most of the memory, so avoid full copies.
NUMBERS_AT_ONCE = 1 << 18
#: TObject bits. ON_HEAP: an object on the heap (kIsOnHeap). IN_DIRECTORY: an object on the heap that a directory owns
#: (kIsOnHeap and kMustCleanup).
ON_HEAP, IN_DIRECTORY = 0x01000000, 0x01000008


@dataclass(frozen=True)
class NumbersArray:
    """A histogram's TArray: the number of elements, then the elements in big-endian order, with x varying fastest."""

    values: Floats

    def __len__(self) -> int:
        return 4 + self.values.nbytes

    def write_to(self, file: BytesIO) -> None:
        """Write the array; elements are converted block by block to avoid a second full-size array."""
        file.write(struct.pack(">i", self.values.size))
        flat = self.values.ravel(order="F")
        for start in range(0, flat.size, NUMBERS_AT_ONCE):
            block = flat[start : start + NUMBERS_AT_ONCE]
            file.write(block.astype(block.dtype.newbyteorder(">")).data)


Part = bytes | NumbersArray


def root_list(objects: Sequence[bytes]) -> bytes:
    """Encode a TList of objects, with empty drawing options."""
    return counted(
        5, root_object(ON_HEAP), root_string(""), struct.pack(">i", len(objects)), *(one + b"\0" for one in objects)
    )


def pointed(class_name: str, content: Part) -> bytes:
    """Encode a pointer to an object: the class name and the object."""
    return with_count(struct.pack(">I", NEW_CLASS_TAG), class_name.encode(), b"\0", content)


def counted(version: int, *parts: Part) -> bytes:
    """Encode a class version and the members, preceded by their byte count."""
    return with_count(struct.pack(">h", version), *parts)


def with_count(*parts: Part) -> bytes:
    """Encode the parts, preceded by their byte count. Raises UnsupportedBranchError if the parts are too large."""
    size = sum(map(len, parts))
    if size > OBJECT_BYTES_MAX:
        raise UnsupportedBranchError(
            f"an object of {size} bytes exceeds the maximum size of an object in a ROOT file",
            hint="write fewer bins, or several histograms",
        )
    file = BytesIO()
    file.write(struct.pack(">I", BYTE_COUNT_MASK | size))
    for part in parts:
        if isinstance(part, NumbersArray):
            part.write_to(file)
        else:
            file.write(part)
    return file.getvalue()


def named(name: str, title: str, bits: int = ON_HEAP) -> bytes:
    return counted(1, root_object(bits), root_string(name), root_string(title))


def root_object(bits: int, unique_id: int = 0) -> bytes:
    return struct.pack(">hII", 1, unique_id, bits)


def root_string(text: str) -> bytes:
    """Encode a TString. A length of 255 or more is written as the byte 255 and four more bytes."""
    content = text.encode("utf-8", errors="backslashreplace")
    length = bytes([len(content)]) if len(content) < 255 else struct.pack(">Bi", 255, len(content))
    return length + content


def doubles(values: Sequence[float]) -> bytes:
    return struct.pack(f">{len(values)}d", *values)


def doubles_array(values: Floats) -> NumbersArray:
    """Encode a TArrayD, with x varying fastest."""
    return NumbersArray(values.astype("f8", copy=False))


def cells_array(shape: Sequence[int], values: Floats) -> bytes:
    """Encode a TNDArrayT<double> (version 2), which consists of two vectors.

    The first vector contains the axes' strides. The second vector contains the values, if any, with the last axis
    varying fastest.
    """
    spans = numpy.cumprod([1, *reversed(shape)])[::-1]
    sizes = counted(10, struct.pack(">i", spans.size), spans.astype(">i8").tobytes())
    content = counted(10, struct.pack(">i", values.size), values.astype(">f8").tobytes(order="C"))
    return counted(2, counted(2, root_object(0), sizes), content)
