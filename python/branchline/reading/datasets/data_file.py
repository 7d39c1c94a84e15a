"""A file of a dataset: its path, tree, entry range, size and storage element.

Companions are files in the same directory that are read together with the file, event by event. The file's sample
describes the physics: data or simulation, the cross section, and the source of the sum of weights.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path

from branchline.errors import DatasetError
from branchline.reading.datasets.elements import ElementSites
from branchline.reading.datasets.identity import is_checksum
from branchline.reading.datasets.joins import FOLDER, Join, folder_of
from branchline.reading.locations import (
    BETWEEN_REPLICAS,
    PARQUET_ENDINGS,
    ROOT_ENDING,
    is_url,
    links_in,
    path_of_file_url,
    split_location,
    without_secrets,
)

# Placeholders in a companion's location. ENTRY: the entry number. STEM: the main file's name without suffix.
ENTRY, STEM = "{entry}", "{stem}"
# Valid kinds of samples.
_SAMPLE_KINDS = ("data", "background", "signal")


@dataclass(frozen=True)
class DataFile:
    """A file of a dataset, or an entry range of a file.

    - ``path`` is used in messages and records.
    - ``location`` is set if the URL contains secrets, and is then opened instead of ``path``.
    - ``tree`` None means the only tree of the file; ``entry_stop`` None means the end of the tree.
    - ``size_bytes`` is None if the file is missing or its size is unknown.
    - ``replicas`` are alternative locations, which are used if the first location fails.
    - ``cache`` is the location in the cache of the worker's site, which is read first; empty without a cache.
    - ``is_absent`` means that the server reported that the file does not exist, or that a catalogue has no replica of
      it; then ``path`` is its name in the catalogue.
    - ``trees`` is the number of trees of the file that match the pattern of the dataset's list; 0 without a pattern.
    - ``joins`` are trees of the same folder whose rows refer to the events.
    - ``on_disk`` is the device and inode number of a local file, which is equal for all names (links) of the file.
    """

    path: str
    tree: str | None = None
    dataset: str = ""
    metadata: Mapping[str, object] = field(default_factory=dict, hash=False)
    entry_start: int = 0
    entry_stop: int | None = None
    size_bytes: int | None = None
    companions: tuple[Companion, ...] = ()
    location: str = field(default="", repr=False)
    replicas: tuple[str, ...] = field(default=(), repr=False)
    cache: str = field(default="", repr=False)
    is_absent: bool = False
    on_disk: tuple[int, int] | None = field(default=None, repr=False, compare=False)
    #: Value that changes when the file is rewritten: the checksum in the dataset's list if there is one, otherwise a
    #: modification time or an ETag; empty if unknown.
    version: str = field(default="", repr=False, compare=False)
    #: The reason why the version of a remote file is unknown.
    no_version: str = field(default="", repr=False, compare=False)
    #: The sites of storage elements, as specified in the dataset's list.
    sites: ElementSites = field(default=ElementSites(), repr=False)
    #: The machines that store most of the file, as specified in the dataset's list.
    hosts: tuple[str, ...] = field(default=(), repr=False, compare=False)
    #: The sample that the file belongs to, as specified in the dataset's list.
    sample: Sample | None = field(default=None, repr=False, compare=False)
    #: The lookup in a catalogue that returned the file; all files of a lookup share it.
    lookup: CatalogueLookup | None = field(default=None, repr=False, compare=False)
    trees: int = field(default=0, repr=False, compare=False)
    joins: tuple[Join, ...] = ()

    def changed(self, **fields: object) -> DataFile:
        """Return a copy with changed fields.

        Four times as fast as ``dataclasses.replace``, which matters for datasets of 100 000 files.
        """
        other = object.__new__(DataFile)
        other.__dict__.update(self.__dict__, **fields)
        return other

    def at(self, locations: Sequence[str]) -> DataFile:
        """Return a copy at the given locations, of which the first one is read first."""
        first, *replicas = locations
        path = without_secrets(first)
        return self.changed(path=path, location="" if path == first else first, replicas=tuple(replicas))

    @property
    def identity(self) -> tuple[str, str, str | None, int, int | None]:
        """Key that is equal for two files of a dataset if they are the same input."""
        return (self.dataset, absolute(self.path), self.tree, self.entry_start, self.entry_stop)

    @property
    def place(self) -> str:
        """The path, with the tree if the dataset has several trees of the file."""
        return f"{self.path}:{self.tree}" if self.trees else self.path

    @property
    def share_bytes(self) -> int | None:
        """The part of the file's size that counts for this tree: equal parts for all trees that match a pattern."""
        return self.size_bytes if self.size_bytes is None else self.size_bytes // max(1, self.trees)

    @property
    def is_unit(self) -> bool:
        """Whether a sub-job reads all of the file's entries: the tree of a folder, or a tree with joins, whose index
        columns would otherwise be read several times.
        """
        return self.trees > 0 or bool(self.joins)

    @property
    def locations(self) -> tuple[str, ...]:
        """The locations of all replicas, in the order of the dataset's list, and the location in a cache."""
        listed = (self.location or self.path, *self.replicas)
        return (*listed, self.cache) if self.cache else listed

    @property
    def opens(self) -> str:
        """The path or URL to open, joined with the locations of its replicas."""
        return BETWEEN_REPLICAS.join(self.locations)

    @property
    def elements(self) -> tuple[str, ...]:
        """The storage elements of the file.

        They are derived from the dataset's list alone, so they are the same on every machine.
        """
        element_of = self.sites.element_of
        if not self.replicas:
            return (element_of(self.location or self.path),)
        return tuple(dict.fromkeys(element_of(one) for one in self.locations if one != self.cache))

    @property
    def is_missing(self) -> bool:
        """Whether the file is known to be missing and has no other replicas."""
        is_known = self.is_absent or not is_url(self.path)
        return is_known and self.size_bytes is None and not self.replicas

    @property
    def missing_reason(self) -> str:
        """Why a missing file cannot be read."""
        return "no replica can be read" if self.lookup is not None else "there is no such file"

    def with_size(self) -> DataFile:
        """Return a copy with the size of a local file; remote and absent files are returned unchanged."""
        if is_url(self.path) or self.is_absent:
            return self
        try:
            status = os.stat(self.path)
        except OSError:
            return self.changed(size_bytes=None)
        version = self.version if is_checksum(self.version) else f"written {status.st_mtime_ns} ns"
        return self.changed(size_bytes=status.st_size, on_disk=(status.st_dev, status.st_ino), version=version)

    def with_absolute_path(self) -> DataFile:
        """Return a copy with absolute paths, which do not depend on the working directory."""
        if self.is_absent and not is_url(self.path):
            return self
        path, location = absolute(self.path), self.location and absolute(self.location)
        replicas = tuple(map(absolute, self.replicas))
        if (path, location, replicas) == (self.path, self.location, self.replicas):
            return self
        other = self.changed(path=path, location=location, replicas=replicas)
        # A ``file:`` URL that became a path has no size yet.
        return other.with_size() if is_url(self.path) else other


@dataclass(frozen=True)
class CatalogueLookup:
    """How a catalogue located the files of a dataset.

    - ``name`` is ``rucio:SCOPE:NAME``, or the path of a metalink file; ``server`` is the URL of the catalogue's server.
    - ``time`` is the time of the lookup (ISO 8601, UTC).
    - ``schemes`` and ``rses`` (an RSE expression) restrict the replicas.
    - ``files`` is the number of files, ``replicas`` the number of files with a replica at each RSE.
    - ``tape_replicas`` counts the replicas that were left out because they are on tape.
    - ``without_replicas`` are the names of the files that have no other replicas.
    """

    name: str
    server: str = ""
    time: str = ""
    schemes: tuple[str, ...] = ()
    rses: str = ""
    files: int = 0
    replicas: Mapping[str, int] = field(default_factory=dict, hash=False)
    tape_replicas: int = 0
    without_replicas: tuple[str, ...] = ()


def absolute(path: str) -> str:
    """Make a local path, a ``file:`` URL or the last link of an fsspec chain absolute; return other URLs unchanged.

    ``..`` is removed only if the resulting path is the same file, which is not always the case after a symbolic link.
    """
    if path.startswith("/") and "/." not in path and "//" not in path and not path.endswith("/"):
        return path
    if is_url(path):
        *links, last = links_in(path)
        return "::".join([*links, absolute(last)]) if links else path_of_file_url(path) or path
    full = os.path.abspath(path)
    if ".." in path.split("/"):
        with suppress(OSError):
            if not os.path.samefile(full, path):
                return os.path.join(os.getcwd(), path)
    return full


def storage_element(path: str) -> str:
    """Return the storage element of a file.

    For a URL, this is the scheme and host. For a path, it is the mount point and type of the file system, such as
    ``/data (ext4)`` or ``/home (nfs4 server:/home)``. For an fsspec chain, the last link is used.
    """
    *_, path = links_in(path)
    if is_url(path):
        scheme, rest = path.split("://", 1)
        return f"{scheme}://{rest.split('/', 1)[0].rpartition('@')[2]}"
    try:
        folder = os.path.dirname(os.path.abspath(path))
        return _mount_point(folder)
    except OSError:
        return "file system"


@lru_cache(maxsize=4096)
def _mount_point(folder: str) -> str:
    here = Path(os.path.realpath(folder))
    while not os.path.ismount(here):
        here = here.parent
    # Lazy import: only jobs over several storage elements need it.
    import psutil

    for one in reversed(psutil.disk_partitions(all=True)):  # the most recent mount hides earlier ones
        if one.mountpoint == str(here):
            server = f" {one.device}" if ":" in one.device else ""
            return f"{here} ({one.fstype}{server})"
    return str(here)


@dataclass(frozen=True)
class Companion:
    """A file that accompanies each file of the dataset, and its tree.

    ``location`` is ``path[:tree]``, relative to the main file's directory. A tree path with ``{entry}`` refers to one
    tree per entry of the main tree, as in ``Kinematics.root:Event{entry}/TreeK``. Without a tree path, the tree is
    detected. ``{stem}`` is replaced with the main file's name without suffix, as in ``{stem}_friend.root``.
    ``{folder}`` is replaced with the folder of the main tree: ``{folder}/O2trackextra_002`` is a tree of the main file,
    ``other.root:{folder}/O2extra`` one of another file.
    """

    name: str
    location: str

    def path_for(self, path: str, main_tree: str | None = None) -> tuple[str, str | None]:
        """Return the path of the companion of a main file and tree, and the companion's tree if specified."""
        if self.location.startswith(f"{FOLDER}/"):
            return path, self._in_folder(self.location, main_tree)
        folder, _, name = path.rpartition("/")
        own, tree = split_location(self.location)
        tree = None if tree is None else self._in_folder(tree, main_tree)
        own = own.replace(STEM, _stem(name))
        if os.path.isabs(own) or "://" in own:
            return own, tree
        return (f"{folder}/{own}" if folder else own), tree

    @staticmethod
    def _in_folder(tree: str, main_tree: str | None) -> str:
        return tree.replace(FOLDER, folder_of(main_tree)).removeprefix("/")


#: Accepted types for companions. A string is ``location`` or ``name=location``.
CompanionsLike = (
    str
    | os.PathLike[str]
    | Companion
    | Mapping[str, str | os.PathLike[str]]
    | Iterable[str | os.PathLike[str] | Companion]
    | None
)


def companions_of(given: CompanionsLike) -> tuple[Companion, ...]:
    """Create companions from a mapping of names to locations, or from strings ``location`` or ``name=location``.

    The default name is the file name without suffix: ``Kinematics`` for ``Kinematics.root``. Raises DatasetError.
    """
    if given is None:
        return ()
    if isinstance(given, str | os.PathLike | Companion):
        given = [given]
    if isinstance(given, Mapping):
        found = [Companion(str(name), _companion_location(location)) for name, location in given.items()]
    elif isinstance(given, Iterable):
        found = [one if isinstance(one, Companion) else _companion_of(_companion_location(one)) for one in given]
    else:
        raise DatasetError(f"companions cannot be {given!r}", hint='give {"Kinematics": "Kinematics.root"}')
    names = [one.name for one in found]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise DatasetError(f"several companions have the same name: {', '.join(sorted(twice))}", hint="write NAME=FILE")
    return tuple(found)


def _stem(name: str) -> str:
    """Return the file name without the suffix of ROOT or Parquet files."""
    ending = next((one for one in (ROOT_ENDING, *PARQUET_ENDINGS) if name.lower().endswith(one)), "")
    return name[: len(name) - len(ending)]


def _companion_location(given: object) -> str:
    if not isinstance(given, str | os.PathLike) or not os.fspath(given):
        raise DatasetError(f"{given!r} is not a companion file", hint='give a path such as "Kinematics.root"')
    return str(os.fspath(given))


def _companion_of(text: str) -> Companion:
    name, separator, location = text.partition("=")
    if separator and name and "/" not in name:
        return Companion(name, _companion_location(location))
    path, _ = split_location(text)
    return Companion(_stem(os.path.basename(path)).replace(STEM, "").strip("_-."), text)


@dataclass(frozen=True)
class Sample:
    """A sample of events.

    - ``kind`` is ``data``, ``background`` or ``signal``.
    - ``cross_section_pb`` is the cross section of simulation in picobarn. ``scale`` is an additional factor, such as a
      k-factor or a filter efficiency.
    - ``luminosity_per_fb`` is the luminosity of data in inverse femtobarn. For simulation, it overrides the luminosity
      to which the sample is scaled.
    - ``sum_of_weights`` is the sum of weights of all generated events: a number, ``TREE:BRANCH`` such as
      ``Runs:genEventSumw`` for a branch that is summed over all files, or ``histogram:NAME[BIN]`` with ROOT's bin
      index. If it is not set, the number of events is used.
    - ``section_luminosity_per_pb`` is the recorded luminosity of each luminosity section of data in inverse picobarn,
      or the CSV file that ``brilcalc lumi --byls`` has written.
    - ``label`` and ``group`` are for plots; samples of a group are drawn as one.
    - ``era`` is the data-taking period, for uncertainties that are uncorrelated between periods.
    """

    kind: str = "background"
    cross_section_pb: float | None = None
    luminosity_per_fb: float | None = None
    sum_of_weights: float | str | None = None
    section_luminosity_per_pb: float | str | None = None
    scale: float = 1.0
    label: str = ""
    group: str = ""
    era: str = ""

    @property
    def is_data(self) -> bool:
        """Whether the sample is real data."""
        return self.kind == "data"

    @classmethod
    def of(cls, given: object, dataset: str, source: str = "") -> Sample:
        """Parse the sample of a dataset's list. Raises DatasetError for unknown keys and invalid values."""
        where = f"the sample of dataset {dataset!r}"
        if not isinstance(given, Mapping):
            raise DatasetError(f"{where} is not a mapping", path=source or None)
        known = [one.name for one in fields(cls)]
        for key, value in given.items():
            if key not in known:
                near = get_close_matches(str(key), known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(known)}"
                raise DatasetError(f"{where} has the unknown key {key!r:.80}", path=source or None, hint=hint)
            problem = "" if value is None else _sample_problem(str(key), value)
            if problem:
                raise DatasetError(f"{key} of {where} {problem}", path=source or None)
        found = cls(**{str(key): value for key, value in given.items() if value is not None})
        if found.is_data and (found.cross_section_pb is not None or found.sum_of_weights is not None):
            raise DatasetError(
                f"{where} is data, which has neither a cross section nor a sum of weights", path=source or None
            )
        if not found.is_data and found.section_luminosity_per_pb is not None:
            raise DatasetError(f"{where} is simulation, which has no luminosity sections", path=source or None)
        return found


def _sample_problem(key: str, value: object) -> str:
    """Describe what is wrong with a value; empty if it is valid."""
    if key in ("kind", "label", "group", "era"):
        if not isinstance(value, str) or (key == "kind" and value not in _SAMPLE_KINDS):
            return f"is {value!r:.80}, not {'one of ' + ', '.join(_SAMPLE_KINDS) if key == 'kind' else 'text'}"
        return ""
    if key == "section_luminosity_per_pb" and isinstance(value, str):
        return "" if value else "is empty, not the name of a file"
    if key == "sum_of_weights" and isinstance(value, str):
        tree, colon, branch = value.partition(":")
        return "" if colon and tree and branch else f"is {value!r:.80}, not TREE:BRANCH or histogram:NAME[BIN]"
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or not isinstance(value, int | float) or value <= 0:
        return f"is {value!r:.80}, not a positive number"
    return ""
