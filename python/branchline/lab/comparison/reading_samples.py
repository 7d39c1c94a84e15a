"""Reading as what is compared: the files of a place with an access mode, by Branchline, in a process of its own."""

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

#: The code of a sample that failed, as of a command.
_FAILED = 1
_OF_SERVER = "the cache of the server is not ours, and may be warm"


@dataclass(frozen=True)
class ReadingOptions:
    """What is read of each place: branches of a tree (none: all), from cold files or from the page cache. ``behind``
    are files of a server of ours, which are made cold, too.
    """

    tree: str = ""
    branches: tuple[str, ...] = ()
    is_cold: bool = True
    behind: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reading:
    """All files of a place, read with an access mode. ``place`` and ``access`` are as they were written."""

    name: str
    place: str
    access: str
    settings: JobSettings
    files: JobFiles

    @classmethod
    def of(cls, name: str, place: str, access: str, wanted: ReadingOptions) -> Reading:
        """Raises OptionError for an access that is none, DatasetError for a place without files."""
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
        reader_of(replace(JobRequest.of(0, settings, [], Path()), branches=[]))  # Checks the access.
        return found

    @property
    def whole(self) -> list[str]:
        """What it is, in words."""
        return ["read", shown(self.place), *(["with access", self.access] if self.access else [])]

    @property
    def output(self) -> Path | None:
        """It writes nothing."""
        return None

    def prepare(self, wait_s: float) -> None:
        """What is to be warm is read once. Raises BranchlineError where that fails."""
        if not self.settings.cold:
            first = self.taken(0, 0, None, wait_s)
            if first.code:
                raise BranchlineError(first.said, path=shown(self.place))

    def taken(self, round_number: int, position: int, _cached_bytes: int | None, wait_s: float) -> ArmRun:
        """Reads everything once."""
        load = os.getloadavg()[0]
        is_cold, local = self.settings.cold, self.files.local
        # What is warm is looked at before the process starts, what has to be cold is made so behind that.
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
            notes=list(found.surroundings.notes),
        )


def options_of(access: str) -> dict[str, Value]:
    """The options of client branchline for an access as "plain" or "plain,read_ahead=1 MiB". Raises OptionError."""
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
    """Whether a text names files, and is no command."""
    path, _ = split_location(text)
    if is_url(path):
        return " " not in path.strip()
    path = os.path.expanduser(path)
    if os.path.exists(path):
        return os.path.isdir(path) or not os.access(path, os.X_OK)
    return is_pattern(path) or path.endswith(".root")
