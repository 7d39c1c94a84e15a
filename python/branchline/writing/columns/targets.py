"""The file that a conversion writes: its format, its name and its layout."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from branchline.errors import OptionError

if TYPE_CHECKING:
    import awkward as ak

    from branchline.writing.columns.fields import FieldPlan

#: What a file is converted to.
Kind = Literal["rntuple", "ttree", "parquet"]
# A cluster holds some MB of each of many columns, and fits well into the memory of a chunk.
CLUSTER_BYTES = "64 MiB"
# The largest page that ROOT writes.
PAGE_BYTES = "1 MiB"


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
