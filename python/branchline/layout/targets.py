"""What is made of columns, and how it is laid out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import awkward as ak

from branchline.layout.fields import FieldPlan


class Writer(Protocol):
    """Takes chunks of fields, and makes a file of them that has its name when it is whole."""

    def fill(self, plan: FieldPlan, chunk: ak.Array) -> None:
        """Adds a chunk."""

    def finish(self) -> tuple[int, int]:
        """Ends the file; clusters and bytes that it has."""

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
