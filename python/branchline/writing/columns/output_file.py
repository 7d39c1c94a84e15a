"""The output file of a conversion or merge: its format, name and layout."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from branchline.errors import OptionError

if TYPE_CHECKING:
    import awkward as ak

    from branchline._core import Column
    from branchline.writing.columns.fields import FieldPlan, ShownField

#: Suffixes that are rejected for ROOT files, since they belong to other formats.
OTHER_ENDINGS = {
    *(
        ".arrow",
        ".avro",
        ".csv",
        ".feather",
        ".h5",
        ".hdf5",
        ".ipc",
        ".json",
        ".jsonl",
        ".npy",
        ".npz",
        ".orc",
        ".parquet",
    ),
    *(".bz2", ".gz", ".tar", ".xz", ".zip", ".zst", ".pickle", ".pkl", ".py", ".toml", ".xml", ".yaml", ".yml"),
    *(".htm", ".html", ".log", ".md", ".pdf", ".png", ".svg", ".txt"),
}
# Default cluster size: large enough for a few MB of each of many columns, small enough to keep a chunk in memory.
CLUSTER_BYTES = "64 MiB"
# Default page size: the maximum size of the pages that ROOT writes.
PAGE_BYTES = "1 MiB"
#: Exclusive upper limit on the number of entries of a tree in a ROOT file.
ENTRIES_END = 2**63

#: Output formats of a conversion.
Kind = Literal["rntuple", "ttree", "parquet"]


def kind_of_name(output: Path, other: Kind) -> Kind:
    """Return the format for a file name: Parquet for ``.parquet``, ``other`` for ``.root`` or no suffix.

    Raises `OptionError` for an unknown suffix.
    """
    ending = output.suffix.lower()
    if ending == ".parquet":
        return "parquet"
    if ending in ("", ".root"):
        return other
    raise OptionError(
        f"unknown file format: {output.name}", hint="write OUT.root or OUT.parquet, or choose the format with --to"
    )


def check_root_name(output: str | os.PathLike[str]) -> Path:
    """Return the path of an output ROOT file. Raises `OptionError` for a name with the suffix of another format."""
    path = Path(output)
    ending = path.suffix.lower()
    if ending in OTHER_ENDINGS:
        hint = "name it OUT.root" + (", and convert that file to Parquet" if ending == ".parquet" else "")
        raise OptionError(f"the output is a ROOT file, but {path} has the suffix of another format", hint=hint)
    return path


@dataclass(frozen=True)
class ConvertProgress:
    """The progress of a conversion: processed files, total files, processed entries."""

    files_done: int
    files_count: int
    entries_done: int


@dataclass(frozen=True)
class FileSize:
    """The size of an output file: number of clusters (row groups in Parquet) and bytes."""

    clusters: int
    size_bytes: int


class Writer(Protocol):
    """Writes chunks of fields to a file, which appears under its final name only when complete."""

    def fill(self, plan: FieldPlan, chunk: ak.Array) -> None:
        """Append a chunk."""

    def finish(self) -> FileSize:
        """Finish the file."""

    def abandon(self) -> None:
        """Remove the unfinished file."""


@dataclass(frozen=True)
class Layout:
    """The layout of an output file.

    If ``cluster_entries`` (the number of entries per cluster) is None, ``cluster_bytes`` limits the size of clusters.
    """

    codec: str
    cluster_entries: int | None
    cluster_bytes: int
    page_bytes: int


@dataclass(frozen=True)
class Target:
    """The file to write, its inputs, and the name and title of its tree."""

    path: Path
    force: bool
    inputs: list[str]
    name: str
    title: str


@dataclass(frozen=True)
class NewTable:
    """A tree to create.

    - ``columns`` define the branch types; their values are ignored.
    - ``counters`` contains the name of each column's counter branch, or None.
    - ``descriptions`` contains pairs of field path and description for each column.
    - ``shown`` are the projected fields of an RNTuple; None for a TTree.
    """

    name: str
    title: str
    layout: Layout
    names: list[str]
    columns: list[Column]
    counters: list[str | None]
    descriptions: list[list[tuple[str, str]]]
    codecs: dict[str, str]
    shown: list[ShownField] | None
