"""One file of a dataset: its path, tree, entry range and size, and the storage element that it lies on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from branchline.reading.datasets.companions import Companion
from branchline.reading.datasets.elements import ElementSites
from branchline.reading.datasets.samples import Sample
from branchline.reading.locations import BETWEEN_REPLICAS, is_url, links_in, path_of_file_url


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
