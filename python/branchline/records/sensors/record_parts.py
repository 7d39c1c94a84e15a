"""Parts of a job's record that are types of their own: counters, results, samples and source code."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: The state of a file of the user: as it was committed, changed since, or unknown to git.
COMMITTED, CHANGED, NOT_IN_GIT = "as committed", "changed since the commit", "not in git"
#: Git is not there, refuses the folder, or was too slow.
NOT_KNOWN = "not known, as git did not answer"


@dataclass(kw_only=True)
class RequestCounts:
    """What was read from storage; ``fetch_s`` is thread time inside its read calls."""

    bytes_read: int = 0
    cached_bytes: int = 0
    read_calls: int = 0
    fetch_s: float = 0.0

    def add_requests(self, other: RequestCounts) -> None:
        """Adds what else was read."""
        self.bytes_read += other.bytes_read
        self.cached_bytes += other.cached_bytes
        self.read_calls += other.read_calls
        self.fetch_s += other.fetch_s


@dataclass(kw_only=True)
class BasketCounts:
    """What baskets took: sizes before and after decompression, and thread times."""

    baskets: int = 0
    compressed_bytes: int = 0
    plain_bytes: int = 0
    decompress_s: float = 0.0
    decode_s: float = 0.0

    def add_baskets(self, other: BasketCounts) -> None:
        """Adds what other baskets took."""
        self.baskets += other.baskets
        self.compressed_bytes += other.compressed_bytes
        self.plain_bytes += other.plain_bytes
        self.decompress_s += other.decompress_s
        self.decode_s += other.decode_s


@dataclass(kw_only=True)
class ReadCounts(RequestCounts, BasketCounts):
    """What reading took, from requests to arrays. ``bytes_asked`` are those that were wanted of ``bytes_read``."""

    bytes_asked: int = 0

    def add(self, other: ReadCounts) -> None:
        """Adds what reading something else took."""
        self.bytes_asked += other.bytes_asked
        self.add_requests(other)
        self.add_baskets(other)


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


@dataclass
class SampleRecord:
    """A sample. ``sum_of_weights`` is that of the files that were read, in proportion where a part of a file was; None
    for data, and if it is not known, for the reason in ``note``. ``factor`` is what raw results are multiplied with to
    be those of ``luminosity_per_fb`` (None if it is not known): 1000 * cross section in pb * luminosity in 1/fb *
    ``scale`` / sum of weights.
    """

    name: str = ""
    kind: str = "background"
    label: str = ""
    group: str = ""
    files: int = 0
    events: int = 0
    cross_section_pb: float | None = None
    luminosity_per_fb: float | None = None
    scale: float = 1.0
    sum_of_weights: float | None = None
    sum_of_weights_from: str = "events"
    factor: float | None = None
    note: str = ""

    @property
    def is_data(self) -> bool:
        """Whether it was measured."""
        return self.kind == "data"


@dataclass
class SourceRecord:
    """A Python file of the user that wagons need, with the ``commit`` that was checked out; ``state`` says whether
    it is the file of that commit.
    """

    module: str
    path: str = ""
    sha256: str = ""
    size_bytes: int = 0
    commit: str = ""
    state: str = NOT_IN_GIT
