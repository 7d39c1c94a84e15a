"""The file that a conversion or a merge writes: its format, its name and its layout."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from branchline.errors import OptionError

if TYPE_CHECKING:
    import awkward as ak

    from branchline.writing.columns.fields import FieldPlan

#: Endings of files that are no ROOT files.
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
# A cluster holds some MB of each of many columns, and fits well into the memory of a chunk.
CLUSTER_BYTES = "64 MiB"
# The largest page that ROOT writes.
PAGE_BYTES = "1 MiB"
#: Entries of a tree in a ROOT file are counted below this.
ENTRIES_END = 2**63

#: What a file is converted to.
Kind = Literal["rntuple", "ttree", "parquet"]


def kind_of_name(output: Path, other: Kind) -> Kind:
    """The format of a file by its name: Parquet, or the ``other``. Raises `OptionError` for another ending."""
    ending = output.suffix.lower()
    if ending == ".parquet":
        return "parquet"
    if ending in ("", ".root"):
        return other
    raise OptionError(
        f"the ending of {output.name} names no known format", hint="write OUT.root or OUT.parquet, or name it with --to"
    )


def check_root_name(output: str | os.PathLike[str]) -> Path:
    """The path of a ROOT file to write. Raises `OptionError` for a name with the ending of another format."""
    path = Path(output)
    ending = path.suffix.lower()
    if ending in OTHER_ENDINGS:
        hint = "name it OUT.root" + (", and convert that file to Parquet" if ending == ".parquet" else "")
        raise OptionError(f"the output is a ROOT file, and {path} has the ending of another format", hint=hint)
    return path


@dataclass(frozen=True)
class ConvertProgress:
    """The progress of a conversion: files done, files in all, entries done."""

    files_done: int
    files_count: int
    entries_done: int


@dataclass(frozen=True)
class FileSize:
    """What a file has: clusters (of Parquet row groups) and bytes."""

    clusters: int
    size_bytes: int


class Writer(Protocol):
    """Writes chunks of fields to a file, which gets its name when it is complete."""

    def fill(self, plan: FieldPlan, chunk: ak.Array) -> None:
        """Adds a chunk."""

    def finish(self) -> FileSize:
        """Ends the file."""

    def abandon(self) -> None:
        """Removes the unfinished file."""


@dataclass(frozen=True)
class Layout:
    """How an output is laid out. If ``cluster_entries`` is None, ``cluster_bytes`` bounds the clusters."""

    codec: str
    cluster_entries: int | None
    cluster_bytes: int
    page_bytes: int


@dataclass(frozen=True)
class Target:
    """The file to write, and its inputs."""

    path: Path
    force: bool
    inputs: list[str]
    name: str
    title: str
