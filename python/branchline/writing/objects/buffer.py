"""Parts of objects in ROOT's bytes, as TBufferFile streams them: byte counts, names, texts and arrays."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO

import numpy

from branchline.errors import UnsupportedBranchError

#: Marks a byte count, and the first object of a class (TBufferFile's kByteCountMask and kNewClassTag).
BYTE_COUNT_MASK, NEW_CLASS_TAG = 0x40000000, 0xFFFFFFFF
#: A byte count has 30 bits.
OBJECT_BYTES_MAX = 2**30 - 1
#: Numbers that are converted at a time: a histogram may fill most of the memory.
NUMBERS_AT_ONCE = 1 << 18
#: TObject's bits for an object on the heap, and for one that a directory takes care of (kIsOnHeap, kMustCleanup).
ON_HEAP, IN_DIRECTORY = 0x01000000, 0x01000008


@dataclass(frozen=True)
class NumbersArray:
    """A TArray of a histogram: the count, then the numbers with their bytes in ROOT's order, x fastest."""

    values: numpy.ndarray

    def __len__(self) -> int:
        return 4 + self.values.nbytes

    def write_to(self, file: BytesIO) -> None:
        """Convert the numbers in blocks, without a second array of all of them."""
        file.write(struct.pack(">i", self.values.size))
        flat = self.values.ravel(order="F")
        for start in range(0, flat.size, NUMBERS_AT_ONCE):
            block = flat[start : start + NUMBERS_AT_ONCE]
            file.write(block.astype(block.dtype.newbyteorder(">")).data)


Part = bytes | NumbersArray


def root_list(objects: Sequence[bytes]) -> bytes:
    """A TList of objects with no option of drawing."""
    return counted(
        5, root_object(ON_HEAP), root_string(""), struct.pack(">i", len(objects)), *(one + b"\0" for one in objects)
    )


def pointed(class_name: str, content: Part) -> bytes:
    """An object that a pointer refers to, with the name of its class."""
    return with_count(struct.pack(">I", NEW_CLASS_TAG), class_name.encode(), b"\0", content)


def counted(version: int, *parts: Part) -> bytes:
    """The version of a class and its members, after the number of their bytes."""
    return with_count(struct.pack(">h", version), *parts)


def with_count(*parts: Part) -> bytes:
    """The number of bytes of these parts, and the parts. Raises UnsupportedBranchError if there are too many."""
    size = sum(map(len, parts))
    if size > OBJECT_BYTES_MAX:
        raise UnsupportedBranchError(
            f"an object of {size} bytes is larger than one object in a ROOT file may be",
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
    """A TString; a length of 255 or more takes four bytes after the mark 255."""
    content = text.encode("utf-8", errors="backslashreplace")
    length = bytes([len(content)]) if len(content) < 255 else struct.pack(">Bi", 255, len(content))
    return length + content


def doubles(values: Sequence[float]) -> bytes:
    return struct.pack(f">{len(values)}d", *values)


def doubles_array(values: numpy.ndarray) -> NumbersArray:
    """A TArrayD, in which x runs fastest."""
    return NumbersArray(values.astype("f8", copy=False))


def cells_array(shape: Sequence[int], values: numpy.ndarray) -> bytes:
    """A TNDArrayT<double> (version 2): the cells in the volume that each axis spans, then the values, if there are any,
    of which the last axis runs fastest. Both are vectors.
    """
    spans = numpy.cumprod([1, *reversed(shape)])[::-1]
    sizes = counted(10, struct.pack(">i", spans.size), spans.astype(">i8").tobytes())
    content = counted(10, struct.pack(">i", values.size), values.astype(">f8").tobytes(order="C"))
    return counted(2, counted(2, root_object(0), sizes), content)
