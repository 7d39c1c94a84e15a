"""Dataclasses that are parts of a job's record: files of the dataset, counters, results, samples, source files."""

from __future__ import annotations

from dataclasses import dataclass, field

#: Git states of a user's file: committed, modified since the commit, or not tracked.
COMMITTED, CHANGED, NOT_IN_GIT = "as committed", "changed since the commit", "not in git"
#: Git state of a user's file if git is not installed, rejects the folder, or is too slow.
NOT_KNOWN = "not known, as git did not answer"


@dataclass
class DatasetFile:
    """A file of the dataset. ``entries`` is None if the file was not opened; for a tree in one of several folders, it
    is the sum over all folders of the file that were read. ``version`` is a value that changes when the file is
    rewritten, such as its checksum in a catalogue; empty if unknown.
    """

    path: str = ""
    tree: str | None = None
    dataset: str = ""
    entries: int | None = None
    size_bytes: int | None = None
    version: str = ""


@dataclass
class LookupRecord:
    """A lookup of files in a catalogue: ``name`` is ``rucio:SCOPE:NAME`` or the path of a metalink file, ``server`` the
    URL of the catalogue's server, ``time`` the time of the lookup. Only replicas with these ``schemes`` and at these
    ``rses`` (an RSE expression; empty for all) were requested. ``replicas`` are the numbers of files with a replica at
    each RSE, ``tape_replicas`` is the number of replicas that were left out because they are on tape.
    ``without_replicas`` are the files that have no other replicas; ``files`` includes them.
    """

    name: str = ""
    server: str = ""
    time: str = ""
    schemes: list[str] = field(default_factory=list)
    rses: str = ""
    files: int = 0
    replicas: dict[str, int] = field(default_factory=dict)
    tape_replicas: int = 0
    without_replicas: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class RequestCounts:
    """Counts of reads from storage. ``fetch_s`` is the thread time in read calls."""

    bytes_read: int = 0
    cached_bytes: int = 0
    read_calls: int = 0
    fetch_s: float = 0.0

    def add_requests(self, other: RequestCounts) -> None:
        """Add the counts of further reads."""
        self.bytes_read += other.bytes_read
        self.cached_bytes += other.cached_bytes
        self.read_calls += other.read_calls
        self.fetch_s += other.fetch_s


@dataclass(kw_only=True)
class BasketCounts:
    """The cost of baskets: sizes before and after decompression, and the thread times of the steps."""

    baskets: int = 0
    compressed_bytes: int = 0
    plain_bytes: int = 0
    decompress_s: float = 0.0
    decode_s: float = 0.0

    def add_baskets(self, other: BasketCounts) -> None:
        """Add the cost of further baskets."""
        self.baskets += other.baskets
        self.compressed_bytes += other.compressed_bytes
        self.plain_bytes += other.plain_bytes
        self.decompress_s += other.decompress_s
        self.decode_s += other.decode_s


@dataclass(kw_only=True)
class ReadCounts(RequestCounts, BasketCounts):
    """The cost of reading, from requests to arrays. ``bytes_asked`` is the number of bytes that were needed."""

    bytes_asked: int = 0

    def add(self, other: ReadCounts) -> None:
        """Add the cost of further reads."""
        self.bytes_asked += other.bytes_asked
        self.add_requests(other)
        self.add_baskets(other)


@dataclass
class ParameterRecord:
    """A wagon's parameter: its type, its value, and whether the caller set it."""

    name: str
    kind: str
    value: object = None
    is_set: bool = False


@dataclass
class ResultRecord:
    """A part of a wagon's output: its files, its names in results.root, its picture, and a note.

    ``form`` describes Python types that JSON cannot represent, such as tuples or infinite numbers, so that
    ``branchline.load`` can restore the values; null if JSON represents all values.
    """

    wagon: str = ""
    key: str = ""
    kind: str = "data"
    format: str = "JSON"
    files: list[str] = field(default_factory=list)
    root: list[str] = field(default_factory=list)
    picture: str | None = None
    note: str | None = None
    form: object = None


@dataclass
class TableRecord:
    """A table that a wagon returned under ``key``.

    ``files`` are relative to the results directory, in the order of the rows. ``columns`` maps column names to types.
    Sub-jobs wrote the table in ``pieces``, which were merged in ``merge_stages`` stages. ``merge_s`` is the workers'
    time for merging, ``merge_bytes`` the number of bytes copied. If ``is_merged`` is False, the files are the unmerged
    pieces.
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
    """A data sample or a simulated sample.

    ``sum_of_weights`` is the sum over all files read, where the sum of each file is scaled by the fraction of the file
    that was read. It is None for data, and if the sum is unknown for the reason in ``note``. ``factor`` scales raw
    results to ``luminosity_per_fb`` (None if unknown): 1000 * cross section in pb * luminosity in 1/fb * ``scale`` /
    sum of weights.
    """

    name: str = ""
    kind: str = "background"
    label: str = ""
    group: str = ""
    era: str = ""
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
        """Whether the sample is measured data rather than simulation."""
        return self.kind == "data"


@dataclass
class LuminosityRecord:
    """The luminosity sections of a dataset of which a wagon has processed events: sections that the wagon has certified
    with ``lumi_mask``, or counted with ``LumiSections.of``.

    ``luminosity_per_pb`` is the sum of their recorded luminosities by ``source``, a file or a number; None if the
    dataset has no source, or for the reason in ``note``. ``missing_count`` sections are not in the source: ``missing``
    lists their first and last numbers by run.
    """

    wagon: str = ""
    dataset: str = ""
    sections: int = 0
    luminosity_per_pb: float | None = None
    source: str = ""
    missing_count: int = 0
    missing: dict[str, list[list[int]]] = field(default_factory=dict)
    note: str = ""


@dataclass
class RecoveredFile:
    """A file that was never closed, and the number of its keys that were recovered."""

    path: str
    keys: int = 0


@dataclass
class SourceRecord:
    """One of the user's Python files that wagons need.

    ``commit`` is the commit that was checked out; ``state`` says whether the file is unchanged since that commit.
    """

    module: str
    path: str = ""
    sha256: str = ""
    size_bytes: int = 0
    commit: str = ""
    state: str = NOT_IN_GIT


@dataclass
class MissingCompanion:
    """A companion that lacks some events: the number of missing events, and the first few missing events."""

    name: str
    events_missing: int = 0
    first: list[str] = field(default_factory=list)


@dataclass
class JoinRecord:
    """A join by index column: the number of joined ``rows``, and of ``negative`` indices, whose rows belong to no
    event.
    """

    name: str
    rows: int = 0
    negative: int = 0
