"""The files of each job of a study's arms, which are resolved before anything is measured."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from branchline.errors import OptionError
from branchline.lab.study import JobSettings
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.datasets.file_lists import expand
from branchline.reading.datasets.server_files import with_sizes
from branchline.reading.locations import is_url


@dataclass(frozen=True)
class JobFiles:
    """The files of the jobs of an arm.

    ``of_jobs`` has the locations of each job's files, ``size_bytes`` their total size, None if unknown. ``local`` are
    the local files that can be evicted from the page cache. ``job_bytes`` has the total size for each job. ``first`` is
    the index of the first job.
    """

    of_jobs: list[list[str]]
    size_bytes: int | None
    local: tuple[str, ...]
    job_bytes: tuple[int | None, ...] = ()
    first: int = 0

    def of_job(self, number: int) -> JobFiles:
        """Return the files of the job with this index."""
        own = self.of_jobs[number]
        size = self.job_bytes[number] if self.job_bytes else None
        named = set(own)
        return JobFiles([own], size, tuple(one for one in self.local if one in named), (size,), number)

    @property
    def is_remote(self) -> bool:
        """Whether any of the files is on a server."""
        return any(is_url(one) for files in self.of_jobs for one in files)


def files_at(place: str, behind: Sequence[str]) -> JobFiles:
    """Return all files at a location for one job. The location is a file, a folder, a pattern or a URL. ``behind`` are
    the files that a local server reads. Raises DatasetError for a location without files.
    """
    files = with_sizes(expand(place if is_url(place) else os.path.abspath(os.path.expanduser(place)), DataFile("")))
    local = [one.path for one in files if not is_url(one.path)]
    missing = next((one for one in local if not os.path.exists(one)), None)
    if missing:
        raise OptionError("there is no such file", path=missing)
    size = _size_of(files)
    return JobFiles([[one.location or one.path for one in files]], size, (*local, *behind), (size,))


def files_of(settings: JobSettings) -> JobFiles:
    """Find the files of an arm and distribute them among its jobs. Raises OptionError if there are too few files,
    DatasetError for patterns without a match.
    """
    if settings.client == "command" and "{files}" not in settings.command:
        return JobFiles([[] for _ in range(settings.jobs)], None, _served(settings))
    places = []
    for where in settings.where:
        folder = _below(where, settings.folder) if settings.folder else where
        places.append([one for pattern in settings.files for one in expand(_below(folder, pattern), DataFile(""))])
    jobs = _shared_out(settings, places)
    # Query the file sizes on all servers concurrently.
    known = iter(with_sizes([one for files in jobs for one in files]))
    shared = [[next(known) for _ in files] for files in jobs]
    used = [one for files in shared for one in files]
    local = tuple(dict.fromkeys(one.path for one in used if not is_url(one.path)))
    names = [[one.location or one.path for one in files] for files in shared]
    sizes = tuple(_size_of(files) for files in shared)
    return JobFiles(names, None if None in sizes else sum(filter(None, sizes)), local + _served(settings), sizes)


def _below(where: str, name: str) -> str:
    """Return the location of ``name`` below a folder or URL, which may have trailing slashes. A double slash after the
    host is kept, since it starts an absolute path on XRootD servers.
    """
    if not is_url(where):
        return os.path.join(os.path.abspath(os.path.expanduser(where)), name.strip("/"))
    scheme, _, rest = where.partition("://")
    server, slash, path = rest.partition("/")
    begin = slash + path[: len(path) - len(path.lstrip("/"))] or "/"
    middle = path.strip("/")
    return f"{scheme}://{server}{begin}{middle}{'/' if middle else ''}{name.strip('/')}"


def _shared_out(settings: JobSettings, places: list[list[DataFile]]) -> list[list[DataFile]]:
    """Assign files to jobs. Job i gets files of location i (modulo the number of locations), and no file is used
    twice.
    """
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
            raise OptionError(what, hint="reduce jobs or files_per_job")
    return jobs


def _size_of(files: list[DataFile]) -> int | None:
    try:
        sizes = [one.size_bytes if is_url(one.path) else os.path.getsize(one.path) for one in files]
    except OSError as error:
        raise OptionError(f"the file cannot be read: {error.strerror}", path=error.filename) from None
    return None if None in sizes else sum(one for one in sizes if one is not None)


def _served(settings: JobSettings) -> tuple[str, ...]:
    """Return the files in the folders of local servers. Raises OptionError for a folder without files, since nothing
    would be evicted from the page cache.
    """
    found: list[str] = []
    for folder in settings.served_from:
        files = [str(one) for one in sorted(Path(folder).rglob("*")) if one.is_file()]
        if not files:
            raise OptionError("served_from names a folder that has no files", path=folder)
        found += files
    return tuple(found)
