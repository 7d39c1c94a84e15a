"""What is made of columns, and how it is laid out."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from branchline.errors import OptionError

if TYPE_CHECKING:
    import awkward as ak

    from branchline.layout.fields import FieldPlan

#: What a file is converted to.
Kind = Literal["rntuple", "ttree", "parquet"]
#: Entries of a tree are counted below this.
ENTRIES_END = 2**63
# A cluster holds some MB of each of many columns, and is a part of what reading a chunk may take.
CLUSTER_BYTES = "64 MiB"
# What ROOT gives a page at most.
PAGE_BYTES = "1 MiB"


#: Endings of names that say of a file that it is something else than a ROOT file.
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


def check_root_name(output: str | os.PathLike[str]) -> Path:
    """The path of a ROOT file that is to be made. Raises `OptionError` for a name that says something else."""
    path = Path(output)
    ending = path.suffix.lower()
    if ending in OTHER_ENDINGS:
        hint = "name it OUT.root" + (", and convert that file to Parquet" if ending == ".parquet" else "")
        raise OptionError(f"a ROOT file is made, which {path} is not by its name", hint=hint)
    return path


def kind_of_name(output: Path, other: Kind) -> Kind:
    """What a file with this name is to be, where nobody says: Parquet, or the ``other``. Raises `OptionError`."""
    ending = output.suffix.lower()
    if ending == ".parquet":
        return "parquet"
    if ending in ("", ".root"):
        return other
    raise OptionError(
        f"the name {output.name} does not say what is to be made", hint="OUT.root, OUT.parquet, or say it with --to"
    )


@dataclass(frozen=True)
class ConvertProgress:
    """How far a conversion is: files of how many, and entries."""

    files_done: int
    files_count: int
    entries_done: int


@dataclass(frozen=True)
class FileSize:
    """What a file has: clusters (of Parquet row groups) and bytes."""

    clusters: int
    size_bytes: int


class Writer(Protocol):
    """Takes chunks of fields, and makes a file of them that has its name when it is whole."""

    def fill(self, plan: FieldPlan, chunk: ak.Array) -> None:
        """Adds a chunk."""

    def finish(self) -> FileSize:
        """Ends the file."""

    def abandon(self) -> None:
        """Leaves nothing of it."""


@dataclass(frozen=True)
class Layout:
    """How an output is laid out. None of ``cluster_entries``: clusters are as large as ``cluster_bytes`` says."""

    codec: str
    cluster_entries: int | None
    cluster_bytes: int
    page_bytes: int


@dataclass(frozen=True)
class Target:
    """The file that is made, and from which others."""

    path: Path
    force: bool
    inputs: list[str]
    name: str
    title: str
