"""One file of a dataset: its path, tree, entry range and size, and the storage element that it lies on.

Companions are files next to it that are read event by event with it. Its sample is the description in the dataset's
list: data or simulation, the cross section, and the source of the sum of weights.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path

from branchline.errors import DatasetError
from branchline.reading.datasets.elements import ElementSites
from branchline.reading.locations import (
    BETWEEN_REPLICAS,
    PARQUET_ENDINGS,
    ROOT_ENDING,
    is_url,
    links_in,
    path_of_file_url,
    split_location,
)

# Placeholders in the location of a companion: the number of the entry, the main file's name without its ending.
ENTRY, STEM = "{entry}", "{stem}"
# Kinds of samples.
_SAMPLE_KINDS = ("data", "background", "signal")


@dataclass(frozen=True)
class DataFile:
    """A file, or an entry range of it, that belongs to a dataset.

    ``tree`` None stands for the only tree of the file. ``entry_stop`` None stands for the end of the tree.
    ``size_bytes`` is None for a file that is missing or of unknown size. ``path`` is what is shown and recorded;
    ``location`` is what is opened, where that is a URL with secrets in it. ``replicas`` are other places of the same
    file, which are read where this one fails. ``is_absent``: a server has no such file. ``on_disk`` are the
    device and the number of a local file, which all its names share.
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
    is_absent: bool = False
    on_disk: tuple[int, int] | None = field(default=None, repr=False, compare=False)
    #: Another one when the file was written again, as its time or its ETag; empty where nobody says.
    version: str = field(default="", repr=False, compare=False)
    #: What the dataset's list says of the storage elements of its files.
    sites: ElementSites = field(default=ElementSites(), repr=False)
    #: The machines that hold the file, or most of it, as the dataset's list names them.
    hosts: tuple[str, ...] = field(default=(), repr=False, compare=False)
    #: What the dataset's list says of its kind and its cross section.
    sample: Sample | None = field(default=None, repr=False, compare=False)

    def changed(self, **fields: object) -> DataFile:
        """The same file with other fields, as ``dataclasses.replace`` does it; four times as fast, for datasets of
        100 000 files.
        """
        other = object.__new__(DataFile)
        other.__dict__.update(self.__dict__, **fields)
        return other

    @property
    def identity(self) -> tuple[str, str, str | None, int, int | None]:
        """What makes two files of a dataset the same input."""
        return (self.dataset, absolute(self.path), self.tree, self.entry_start, self.entry_stop)

    @property
    def locations(self) -> tuple[str, ...]:
        """All replicas of the file as they are opened, in the order in which the dataset lists them."""
        return (self.location or self.path, *self.replicas)

    @property
    def opens(self) -> str:
        """The path or URL to open; with its replicas, if it has any, in one text."""
        return BETWEEN_REPLICAS.join(self.locations)

    @property
    def elements(self) -> tuple[str, ...]:
        """The storage elements that have the file, by the dataset's list alone: the same on every machine."""
        element_of = self.sites.element_of
        if not self.replicas:
            return (element_of(self.location or self.path),)
        return tuple(dict.fromkeys(map(element_of, self.locations)))

    @property
    def is_missing(self) -> bool:
        """True where there is no such file, unless it may be elsewhere."""
        is_known = self.is_absent or not is_url(self.path)
        return is_known and self.size_bytes is None and not self.replicas

    def with_size(self) -> DataFile:
        """The same file with its size in the file system; files that are not local stay as they are."""
        if is_url(self.path):
            return self
        try:
            status = os.stat(self.path)
        except OSError:
            return self.changed(size_bytes=None)
        version = f"written {status.st_mtime_ns} ns"
        return self.changed(size_bytes=status.st_size, on_disk=(status.st_dev, status.st_ino), version=version)

    def with_absolute_path(self) -> DataFile:
        """Return the same file, named by absolute paths: the same text for every way to write them, which means the
        same file in every working directory.
        """
        path, location = absolute(self.path), self.location and absolute(self.location)
        replicas = tuple(map(absolute, self.replicas))
        if (path, location, replicas) == (self.path, self.location, self.replicas):
            return self
        other = self.changed(path=path, location=location, replicas=replicas)
        # The size of what was a URL is not known yet.
        return other.with_size() if is_url(self.path) else other


def absolute(path: str) -> str:
    """Return the absolute path of a file, or of the one that a ``file:`` URL or the last link of a chain of fsspec
    names; any other URL as it is.

    ``..`` is only resolved where that gives the same file: behind a symbolic link the kernel resolves it otherwise.
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
    """The name of the place a file lies on: scheme and host of a URL, else the mount point and kind of its file system,
    as ``/data (ext4)`` or ``/home (nfs4 server:/home)``; of a chain of fsspec that of its last link.
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
    # Imported late: only jobs over several storage elements need it.
    import psutil

    for one in reversed(psutil.disk_partitions(all=True)):  # the last that was mounted there hides the others
        if one.mountpoint == str(here):
            server = f" {one.device}" if ":" in one.device else ""
            return f"{here} ({one.fstype}{server})"
    return str(here)


@dataclass(frozen=True)
class Companion:
    """A file next to each file of the dataset, and the tree in it.

    ``location`` is ``path[:tree]``, relative to the main file's directory. With ``{entry}`` in its tree each entry of
    the main tree has a tree of its own, as ``Kinematics.root:Event{entry}/TreeK``; without a tree it is found.
    ``{stem}`` stands for the name of the main file, as ``{stem}_friend.root``.
    """

    name: str
    location: str

    def path_for(self, path: str) -> tuple[str, str | None]:
        """The file next to a main file, and its tree if that is given."""
        folder, _, name = path.rpartition("/")
        own, tree = split_location(self.location)
        own = own.replace(STEM, _stem(name))
        if os.path.isabs(own) or "://" in own:
            return own, tree
        return (f"{folder}/{own}" if folder else own), tree


#: What callers may give as companions; a text is ``location`` or ``name=location``.
CompanionsLike = (
    str
    | os.PathLike[str]
    | Companion
    | Mapping[str, str | os.PathLike[str]]
    | Iterable[str | os.PathLike[str] | Companion]
    | None
)


def companions_of(given: CompanionsLike) -> tuple[Companion, ...]:
    """Companions from a mapping of names to locations, or from texts ``location`` or ``name=location``.

    Without a name it is that of the file: ``Kinematics`` of ``Kinematics.root``. Raises DatasetError.
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
        raise DatasetError(f"several companions are called {', '.join(sorted(twice))}", hint="write NAME=FILE")
    return tuple(found)


def _stem(name: str) -> str:
    """The name of a file without the ending of ROOT or Parquet files."""
    ending = next((one for one in (ROOT_ENDING, *PARQUET_ENDINGS) if name.lower().endswith(one)), "")
    return name[: len(name) - len(ending)]


def _companion_location(given: object) -> str:
    if not isinstance(given, str | os.PathLike) or not os.fspath(given):
        raise DatasetError(f"the companion {given!r} is no file", hint='write it like "Kinematics.root"')
    return str(os.fspath(given))


def _companion_of(text: str) -> Companion:
    name, separator, location = text.partition("=")
    if separator and name and "/" not in name:
        return Companion(name, _companion_location(location))
    path, _ = split_location(text)
    return Companion(_stem(os.path.basename(path)).replace(STEM, "").strip("_-."), text)


@dataclass(frozen=True)
class Sample:
    """A sample of events. ``kind`` is ``data``, ``background`` or ``signal``. Of a simulated one ``cross_section_pb``
    is in picobarn; ``scale`` is a further factor, as a k-factor or the efficiency of a filter. ``luminosity_per_fb`` is
    that of data, or what a simulated sample is scaled to if it has one of its own, in inverse femtobarn.

    ``sum_of_weights`` is that of all generated events: a number, ``TREE:BRANCH`` such as ``Runs:genEventSumw``, summed
    over the entries of all files, or ``histogram:NAME[BIN]``, with ROOT's number of the bin. Without it events count.
    ``label`` and ``group`` are for pictures: samples of one group are drawn as one.
    """

    kind: str = "background"
    cross_section_pb: float | None = None
    luminosity_per_fb: float | None = None
    sum_of_weights: float | str | None = None
    scale: float = 1.0
    label: str = ""
    group: str = ""

    @property
    def is_data(self) -> bool:
        """Whether it was measured."""
        return self.kind == "data"

    @classmethod
    def of(cls, given: object, dataset: str, source: str = "") -> Sample:
        """That of a list. Raises DatasetError for what no sample has, and for impossible values."""
        where = f"the sample of dataset {dataset!r}"
        if not isinstance(given, Mapping):
            raise DatasetError(f"{where} is no mapping", path=source or None)
        known = [one.name for one in fields(cls)]
        for key, value in given.items():
            if key not in known:
                near = get_close_matches(str(key), known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"it may have {', '.join(known)}"
                raise DatasetError(f"{where} has {key!r:.80}, which is nothing", path=source or None, hint=hint)
            problem = "" if value is None else _sample_problem(str(key), value)
            if problem:
                raise DatasetError(f"{key} of {where} {problem}", path=source or None)
        found = cls(**{str(key): value for key, value in given.items() if value is not None})
        if found.is_data and (found.cross_section_pb is not None or found.sum_of_weights is not None):
            raise DatasetError(
                f"{where} is data, which have no cross section and no sum of weights", path=source or None
            )
        return found


def _sample_problem(key: str, value: object) -> str:
    """What is wrong with a value; empty if nothing is."""
    if key in ("kind", "label", "group"):
        if not isinstance(value, str) or (key == "kind" and value not in _SAMPLE_KINDS):
            return f"is {value!r:.80}, not {'one of ' + ', '.join(_SAMPLE_KINDS) if key == 'kind' else 'a text'}"
        return ""
    if key == "sum_of_weights" and isinstance(value, str):
        tree, colon, branch = value.partition(":")
        return "" if colon and tree and branch else f"is {value!r:.80}, not TREE:BRANCH or histogram:NAME[BIN]"
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or not isinstance(value, int | float) or value <= 0:
        return f"is {value!r:.80}, not a number above 0"
    return ""
