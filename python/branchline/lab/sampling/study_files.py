"""The files of each job of a study's arms, found before anything is measured."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from branchline.errors import OptionError
from branchline.lab.study import JobSettings
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.datasets.patterns import expand
from branchline.reading.datasets.server_files import with_sizes
from branchline.reading.locations import is_url


@dataclass(frozen=True)
class JobFiles:
    """The locations of the files of each job, their size in all where it is known, and the local files behind them that
    can be made cold. ``job_bytes`` are the sizes of each job's files. Jobs are numbered from ``first`` on.
    """

    of_jobs: list[list[str]]
    size_bytes: int | None
    local: tuple[str, ...]
    job_bytes: tuple[int | None, ...] = ()
    first: int = 0

    def of_job(self, number: int) -> JobFiles:
        """Those of one job alone."""
        own = self.of_jobs[number]
        size = self.job_bytes[number] if self.job_bytes else None
        named = set(own)
        return JobFiles([own], size, tuple(one for one in self.local if one in named), (size,), number)

    @property
    def is_remote(self) -> bool:
        """Whether a server gives them."""
        return any(is_url(one) for files in self.of_jobs for one in files)


def files_at(place: str, behind: Sequence[str]) -> JobFiles:
    """All files of a place for one job: a file, a folder, a pattern or a URL. ``behind`` are local files of a server of
    ours. Raises DatasetError for a place without files.
    """
    files = with_sizes(expand(place if is_url(place) else os.path.abspath(os.path.expanduser(place)), DataFile("")))
    local = [one.path for one in files if not is_url(one.path)]
    missing = next((one for one in local if not os.path.exists(one)), None)
    if missing:
        raise OptionError("there is no such file", path=missing)
    size = _size_of(files)
    return JobFiles([[one.location or one.path for one in files]], size, (*local, *behind), (size,))


def files_of(settings: JobSettings) -> JobFiles:
    """Finds the files of an arm, and shares them out. Raises OptionError where there are too few, DatasetError for
    patterns that match nothing.
    """
    if settings.client == "command" and "{files}" not in settings.command:
        return JobFiles([[] for _ in range(settings.jobs)], None, _served(settings))
    places = [_found(where, settings) for where in settings.where]
    shared = _with_sizes(_shared_out(settings, places))
    used = [one for files in shared for one in files]
    local = tuple(dict.fromkeys(one.path for one in used if not is_url(one.path)))
    names = [[one.location or one.path for one in files] for files in shared]
    sizes = tuple(_size_of(files) for files in shared)
    return JobFiles(names, None if None in sizes else sum(filter(None, sizes)), local + _served(settings), sizes)


def _found(where: str, settings: JobSettings) -> list[DataFile]:
    template = DataFile("")
    folder = _below(where, settings.folder) if settings.folder else where
    return [one for pattern in settings.files for one in expand(_below(folder, pattern), template)]


def _below(where: str, name: str) -> str:
    """The location of a name below a folder or URL, which may end in slashes. Two behind a server's name are kept: at
    servers of XRootD they begin a full path.
    """
    if not is_url(where):
        return os.path.join(os.path.abspath(os.path.expanduser(where)), name.strip("/"))
    scheme, _, rest = where.partition("://")
    server, slash, path = rest.partition("/")
    begin = slash + path[: len(path) - len(path.lstrip("/"))] or "/"
    middle = path.strip("/")
    return f"{scheme}://{server}{begin}{middle}{'/' if middle else ''}{name.strip('/')}"


def _shared_out(settings: JobSettings, places: list[list[DataFile]]) -> list[list[DataFile]]:
    """Job i has files of place i, and no two jobs the same."""
    count = settings.files_per_job
    jobs: list[list[DataFile]] = []
    for number in range(settings.jobs):
        place, turn = number % len(places), number // len(places)
        of_place = -(-(settings.jobs - place) // len(places))
        files = places[place]
        if not count:
            jobs.append(files[turn::of_place])
        else:
            jobs.append(files[turn * count : (turn + 1) * count])
        if not jobs[-1] or (count and len(jobs[-1]) < count):
            needed = of_place * (count or 1)
            where = settings.where[place]
            what = f"{of_place} jobs need {needed} files at {where}, there are {len(files)}"
            raise OptionError(what, hint="fewer jobs, or less files_per_job")
    return jobs


def _with_sizes(jobs: list[list[DataFile]]) -> list[list[DataFile]]:
    """With the sizes that servers say: all asked at the same time."""
    known = iter(with_sizes([one for files in jobs for one in files]))
    return [[next(known) for _ in files] for files in jobs]


def _size_of(files: list[DataFile]) -> int | None:
    sizes = [one.size_bytes if is_url(one.path) else os.path.getsize(one.path) for one in files]
    return None if None in sizes else sum(one for one in sizes if one is not None)


def _served(settings: JobSettings) -> tuple[str, ...]:
    """The files below the folders from which a server of ours takes them. Raises OptionError for one without files: it
    would seem that something is made cold.
    """
    found: list[str] = []
    for folder in settings.served_from:
        files = [str(one) for one in sorted(Path(folder).rglob("*")) if one.is_file()]
        if not files:
            raise OptionError("served_from names a folder that has no files", path=folder)
        found += files
    return tuple(found)
