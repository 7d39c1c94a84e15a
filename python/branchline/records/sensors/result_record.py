"""The records of what wagons were set to and what they returned: parameters, the files of each part, and tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class ParameterRecord:
    """A parameter of a wagon: its type, its value, and whether a caller has set it."""

    name: str
    kind: str
    value: Any = None
    is_set: bool = False


@dataclass
class ResultRecord:
    """A part of a wagon's output: its files, its names in results.root, its picture, and a note.

    ``form`` says what Python had where JSON has something else, such as a tuple or an infinite number; it is null where
    JSON says it all. ``branchline.load`` makes the values again by it.
    """

    wagon: str = ""
    key: str = ""
    kind: str = "data"
    format: str = "JSON"
    files: list[str] = field(default_factory=list)
    root: list[str] = field(default_factory=list)
    picture: str | None = None
    note: str | None = None
    form: Any = None


@dataclass
class TableRecord:
    """A table that a wagon returned under ``key``: its ``files``, relative to the directory of results, in the order of
    its rows, and its columns with their types.

    Sub-jobs wrote ``pieces``, which were merged in ``merge_stages``: ``merge_s`` are seconds of workers,
    ``merge_bytes`` what was copied. If ``is_merged`` is False the files are pieces.
    """

    wagon: str
    key: str = ""
    format: str = "ttree"
    tree: str = ""
    rows: int = 0
    size_bytes: int = 0
    columns: dict[str, str] = field(default_factory=dict)
    pieces: int = 0
    merge_stages: int = 0
    merge_bytes: int = 0
    merge_s: float = 0.0
    is_merged: bool = True
    files: list[str] = field(default_factory=list)
