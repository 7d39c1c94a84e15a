"""Readings for comparisons: Branchline reads the files of a location with an access mode in a separate process."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from branchline.errors import BranchlineError, OptionError
from branchline.lab.comparison.command_samples import ArmRun
from branchline.lab.sampling.clients import reader_of
from branchline.lab.sampling.job import JobRequest
from branchline.lab.sampling.page_cache import Temperature, fuse_remark
from branchline.lab.sampling.sampler import HereAtOnce, Turn
from branchline.lab.sampling.study_files import JobFiles, files_at
from branchline.lab.study import JobSettings, Value
from branchline.reading.locations import is_pattern, is_url, shown, split_location

#: Exit code of a failed sample.
_FAILED = 1
_OF_SERVER = "the cache of the server is not ours, and may be warm"


@dataclass(frozen=True)
class ReadingOptions:
    """The data to read: branches of a tree (all by default), from cold or from warm files. ``behind`` are the files
    that a local server reads, which are also evicted from the page cache.
    """

    tree: str = ""
    branches: tuple[str, ...] = ()
    is_cold: bool = True
    behind: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reading:
    """All files of a location, read with an access mode. ``place`` and ``access`` are kept as the user wrote them."""

    name: str
    place: str
    access: str
    settings: JobSettings
    files: JobFiles

    @classmethod
    def of(cls, name: str, place: str, access: str, wanted: ReadingOptions) -> Reading:
        """Create a reading. Raises OptionError for invalid access settings, DatasetError for a location without
        files.
        """
        path, tree = split_location(place)
        settings = JobSettings(
            where=(path,),
            tree=wanted.tree or tree or "",
            branches=wanted.branches,
            options=options_of(access),
            cold=wanted.is_cold,
            served_from=wanted.behind,
        )
        found = cls(name, place, access, settings, files_at(path, wanted.behind))
        reader_of(replace(JobRequest.of(0, settings, [], Path()), branches=[]))  # Validates the access settings.
        return found

    @property
    def whole(self) -> list[str]:
        """Description of the reading, split into words."""
        return ["read", shown(self.place), *(["with access", self.access] if self.access else [])]

    @property
    def output(self) -> Path | None:
        """None, since a reading has no output directory."""
        return None

    def prepare(self, wait_s: float) -> None:
        """Read warm files once, so that the page cache contains them. Raises BranchlineError if that fails."""
        if not self.settings.cold:
            first = self.taken(0, 0, None, wait_s)
            if first.code:
                raise BranchlineError(first.said, path=shown(self.place))

    def taken(self, round_number: int, position: int, _cached_bytes: int | None, wait_s: float) -> ArmRun:
        """Read all data once."""
        load = os.getloadavg()[0]
        is_cold, local = self.settings.cold, self.files.local
        # Warm files: their cache state is measured before the process starts. Cold files are evicted later.
        try:
            before = Temperature.of(local)
        except OSError as error:
            said = f"{error.filename}: {error.strerror}"
            return ArmRun(self.name, round_number, position, 0.0, 0.0, _FAILED, load=load, said=said)
        turn = Turn(round_number, position, self.name, "arm")
        found = HereAtOnce(Path.cwd()).take(self.settings, self.files, turn, wait_s)
        if found.error or not found.jobs:
            said = found.error or "it did not run"
            return ArmRun(self.name, round_number, position, found.wall_s, 0.0, _FAILED, load=load, said=said)
        [job] = found.jobs
        remark = found.cold_remark or ("" if local else _OF_SERVER)
        before = replace(before, remark=before.remark or fuse_remark(local))
        return ArmRun(
            self.name,
            round_number,
            position,
            job.wall_s,
            job.cpu_s,
            phases=job.phases,
            load=load,
            cached_bytes=found.cached_bytes,
            temperature=replace(before, cached_bytes=found.cached_bytes or 0, remark=remark) if is_cold else before,
            events=job.events,
            disk_bytes=job.disk_bytes,
            surroundings=found.surroundings,
        )


def options_of(access: str) -> dict[str, Value]:
    """Parse access settings such as "plain" or "plain,read_ahead=1 MiB" to client options. Raises OptionError."""
    if not access:
        return {}
    mode, *fields = access.split(",")
    options: dict[str, Value] = {"mode": mode.strip()}
    for one in fields:
        name, equals, value = one.partition("=")
        if not equals:
            raise OptionError(f"{one!r:.60} in access {access!r:.60} has no value", hint="write plain,read_ahead=1MiB")
        text = value.strip()
        options[name.strip().replace("-", "_")] = int(text) if text.isascii() and text.isdecimal() else text
    return options


def is_place(text: str) -> bool:
    """Return whether a string is a location of files and not a command."""
    path, _ = split_location(text)
    if is_url(path):
        return " " not in path.strip()
    path = os.path.expanduser(path)
    if os.path.exists(path):
        return os.path.isdir(path) or not os.access(path, os.X_OK)
    return is_pattern(path) or path.endswith(".root")
