"""Take a sample: run the jobs of an arm once, on cold files if the arm requires it."""

from __future__ import annotations

import datetime as dt
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from branchline.errors import BranchlineError
from branchline.lab.limits import STUDY_JOBS_HERE_MAX
from branchline.lab.sampling.job import JobRequest
from branchline.lab.sampling.local_jobs import JobServers, run_at_once
from branchline.lab.sampling.machine import Moment, Surroundings, devices_of
from branchline.lab.sampling.page_cache import StillCachedError, cached_bytes, fuse_remark, make_cold
from branchline.lab.sampling.samples import SampleKind, StudySample
from branchline.lab.sampling.study_files import JobFiles
from branchline.lab.sampling.traces import trace_path
from branchline.lab.study import JobSettings

_DROP_CACHES = Path("/proc/sys/vm/drop_caches")


@dataclass(frozen=True)
class Turn:
    """The position of a sample in the study: its round, its position in the round, its arm and its kind."""

    round: int
    position: int
    arm: str
    kind: SampleKind


@dataclass(frozen=True)
class _Coldness:
    cached_bytes: int | None = None
    remark: str = ""


class Taker(Protocol):
    """A place where the jobs of a study can run."""

    #: Maximum number of concurrent jobs.
    jobs_max: int
    #: Whether recorded traces are available to later jobs.
    has_traces: bool

    def take(self, settings: JobSettings, files: JobFiles, turn: Turn, wait_s: float) -> StudySample:
        """Run the jobs of an arm once. Failures are recorded in the error of the sample."""


class HereAtOnce:
    """Takes samples on this machine, in processes that start simultaneously."""

    jobs_max = STUDY_JOBS_HERE_MAX
    has_traces = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._servers: JobServers = {}

    def _traces(self, turn: Turn) -> Callable[[int], Path] | None:
        """Return a function from a job's index to the path of the trace that the job records or repeats; None for
        samples without traces.
        """
        if turn.kind not in ("trace", "blocks"):
            return None
        return lambda number: trace_path(self._folder.absolute(), turn.arm, number)

    def take(self, settings: JobSettings, files: JobFiles, turn: Turn, wait_s: float) -> StudySample:
        cold = _Coldness()
        moments: list[Moment] = []
        devices = devices_of([*files.local, *settings.served_from])

        def before_start() -> None:
            nonlocal cold
            if settings.before:
                _run_before(settings.before, wait_s)
            cold = _made_cold(settings, files)
            moments.append(Moment.now(settings.servers, devices))

        at = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
        environment = {name: str(value) for name, value in settings.environment.items()}
        with _folder_for_jobs() as folder:
            requests = _requests(settings, files, folder, self._traces(turn))
            try:
                wall_s, jobs = run_at_once(requests, environment, wait_s, before_start, self._servers)
                error = next((one.error for one in jobs if one.error), "")
            except BranchlineError as failure:
                wall_s, jobs, error = 0.0, [], str(failure)
        sizes = files.job_bytes or (None,) * len(jobs)
        jobs = [replace(one, file_bytes=size) for one, size in zip(jobs, sizes, strict=False)]
        surroundings = Surroundings()
        if moments:
            used_s = sum(one.cpu_s for one in jobs)
            ended = Moment.now(settings.servers, devices)
            surroundings = Surroundings.between(moments[0], ended, used_s, self._folder)
        return StudySample(
            turn.round,
            turn.position,
            turn.arm,
            turn.kind,
            at,
            wall_s,
            jobs,
            files.size_bytes,
            cold.cached_bytes,
            cold.remark,
            surroundings,
            error=error,
        )


def _requests(
    settings: JobSettings, files: JobFiles, folder: Path, trace_of: Callable[[int], Path] | None
) -> list[JobRequest]:
    requests = []
    for number, names in enumerate(files.of_jobs, files.first):
        own = folder / str(number)
        own.mkdir()
        request = JobRequest.of(number, settings, names, own)
        requests.append(replace(request, trace=str(trace_of(number))) if trace_of is not None else request)
    return requests


@contextmanager
def _folder_for_jobs() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="branchline-study-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _made_cold(settings: JobSettings, files: JobFiles) -> _Coldness:
    """Evict cold files from the page cache. The result has a remark on caches that could not be cleared. Raises
    BranchlineError for a file that cannot be accessed.
    """
    if not settings.cold:
        return _Coldness()
    try:
        return _forgotten(settings, files)
    except OSError as error:
        what = f"its files cannot be made cold: {error.strerror}"
        raise BranchlineError(what, path=error.filename or "") from None


def _forgotten(settings: JobSettings, files: JobFiles) -> _Coldness:
    try:
        make_cold(list(files.local))
        remark = ""
    except (StillCachedError, OSError) as error:
        if not _dropped_all():
            remark = str(error)
        else:
            left = sum(map(cached_bytes, files.local))
            remark = f"{left} bytes stay in the page cache" if left else ""
    if files.is_remote and not settings.served_from:
        remark = remark or "the cache of the server is not ours, and may be warm"
    if not settings.served_from:
        remark = remark or fuse_remark(files.local)
    return _Coldness(sum(map(cached_bytes, files.local)), remark)


def _dropped_all() -> bool:
    """Drop all clean pages from the page cache, which requires root. Return whether that succeeded."""
    try:
        os.sync()
        _DROP_CACHES.write_text("1\n", encoding="ascii")
    except OSError:
        return False
    return True


def _run_before(command: str, wait_s: float) -> None:
    """Run the command that the user wants to run before each sample."""
    words: Sequence[str] = shlex.split(command)
    try:
        ended = subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL, timeout=wait_s, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BranchlineError(f"the command before a sample failed: {error}", path=command) from None
    if ended.returncode:
        said = ended.stderr[-500:].decode(errors="replace").strip()
        raise BranchlineError(f"the command before a sample ended with code {ended.returncode}: {said}", path=command)
