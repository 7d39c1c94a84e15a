"""The subject of a forecast: a job, given by its record, or the reading of a dataset, with the layout of the files."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from branchline.base.quantities import GIB
from branchline.errors import BadFileError, DatasetError, OptionError
from branchline.lab.forecast.calibration import load_calibration, with_calibrated
from branchline.lab.forecast.checked import Errors, errors_seen, load_checked
from branchline.lab.forecast.laid_file import LaidFile, laid_file
from branchline.lab.forecast.planned_requests import openings, pieces_of
from branchline.lab.forecast.rates import Rates, measured, rates_of_job
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.datasets.dataset import Dataset
from branchline.records.sensors.record import JobRecord
from branchline.records.sensors.this_process import cpu_count

#: Maximum number of files whose metadata are read, spread over the dataset; all files are assumed to be similar.
PLANNED_FILES = 64
#: Maximum number of concurrent jobs that are tried, each of them a process.
CONCURRENT_JOBS_MAX = 64
#: Maximum number of files that are opened concurrently.
OPENED_AT_A_TIME = 16
JOB_FILE = "job.json"


@dataclass(frozen=True)
class Subject:
    """The work that is forecast.

    ``files`` are all its files, ``laid`` the layouts of the files whose metadata were read, ``branches`` the wanted
    branches (None for all). ``job`` is the record of a finished job, None for a dataset. ``calibrated`` is the age of
    the calibration from which rates are taken. ``errors`` come from the forecasts that were checked on this machine,
    None if there are too few.

    ``jobs`` such jobs run concurrently on this machine. With ``is_cold``, no file is in the page cache.
    """

    name: str
    files: tuple[DataFile, ...]
    laid: tuple[LaidFile, ...]
    branches: tuple[str, ...] | None
    access: Access
    rates: Rates
    workers: int
    threads: int
    cores: int
    fixed_s: float = 0.0
    step_entries: int | None = None
    memory_limit_bytes: int = GIB
    job: JobRecord | None = None
    calibrated: str = ""
    errors: Errors | None = None
    jobs: int = 1
    is_cold: bool = False

    @property
    def stream_bytes(self) -> int:
        """Memory limit of one stream. At the border of two sub-jobs, two streams of a job share the limit of the
        worker.
        """
        return self.memory_limit_bytes // 2 if self.job else self.memory_limit_bytes

    @property
    def scale(self) -> float:
        """Ratio of the number of all files to the number of files whose metadata were read."""
        return len(self.files) / max(1, len(self.laid))


def is_job(location: str) -> bool:
    """Return whether a location is a directory of results or a job's record."""
    path = Path(location)
    return path.name == JOB_FILE or (path / JOB_FILE).is_file()


def job_record(location: str) -> JobRecord:
    """Load a job's record. Raises BadFileError if the record is invalid."""
    path = Path(location)
    path = path / JOB_FILE if path.is_dir() else path
    try:
        return JobRecord.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise BadFileError(f"{path} is not the record of a job: {error}") from error


def subject_of(location: list[str], branches: tuple[str, ...] | None = None, access: Access | None = None) -> Subject:
    """Return the job if the location is a directory of results or a record; otherwise the reading of a dataset, whose
    rates are measured on a sample. Raises the errors of reading.
    """
    if len(location) == 1 and is_job(location[0]):
        return _of_job(location[0], branches)
    chosen = access or Access()
    files = tuple(Dataset.of(location, access=chosen))
    if not files:
        raise OptionError("the dataset has no files")
    rates = measured(files, branches, chosen)
    known = load_calibration()
    laid = _laid(files, branches, rates.sample_paths)
    cores = cpu_count()
    rates = with_calibrated(rates, known)
    words = known.age_words() if known else ""
    errors = errors_seen(load_checked().here().log_errors())
    return Subject(location[0], files, laid, branches, chosen, rates, 1, cores, cores, calibrated=words, errors=errors)


def situated(subject: Subject, jobs: int, *, is_cold: bool) -> Subject:
    """Return the subject for several concurrent jobs, and with files that are not in the page cache. The jobs share the
    bandwidth of the storage.

    Raises OptionError for an invalid number of jobs, and for remote files with ``is_cold``.
    """
    if not 1 <= jobs <= CONCURRENT_JOBS_MAX:
        raise OptionError(f"invalid number of concurrent jobs: {jobs}", hint=f"give 1 to {CONCURRENT_JOBS_MAX}")
    if is_cold and any(not one.is_near for one in subject.laid):
        raise OptionError("--cold needs files on a local disk", hint="leave it out for files on servers and mounts")
    rates = replace(subject.rates, bytes_per_second=subject.rates.bytes_per_second / jobs)
    return replace(subject, jobs=jobs, is_cold=is_cold, rates=rates)


def _of_job(location: str, branches: tuple[str, ...] | None) -> Subject:
    job = job_record(location)
    if not job.events or not job.totals.plain_bytes:
        hint = (
            "run it again with --no-reuse: its results came from an earlier run"
            if job.subjobs_reused
            else ("run the job first")
        )
        raise OptionError(f"{location}: nothing was read, so nothing can be forecast", hint=hint)
    if not job.dataset:
        raise DatasetError(f"the record of {location} does not name the files that it read", path=location)
    files = tuple(DataFile(one.path, one.tree) for one in job.dataset)
    wanted = branches or tuple(one.name for one in job.branches)
    known = load_calibration()
    fixed_s = sum(job.phases.get(name, 0.0) for name in ("start", "warmup", "write"))
    laid = _shared_out(job, _laid(files, wanted))
    rates = rates_of_job(job)
    # The record of a file contains the total time of all its openings.
    open_s = rates.open_s * len(laid) / max(1, openings(pieces_of(laid, max(1, job.workers))))
    access = job.access.access()
    return Subject(
        name=location,
        files=files,
        laid=laid,
        branches=wanted,
        access=access,
        rates=with_calibrated(replace(rates, open_s=open_s), known),
        workers=max(1, job.workers),
        threads=max(1, job.threads),
        cores=max(1, job.cpu_count),
        fixed_s=fixed_s,
        step_entries=job.step_entries or None,
        memory_limit_bytes=job.memory_limit_bytes or GIB,
        job=job,
        calibrated=known.age_words() if known else "",
        errors=errors_seen(load_checked().here().log_errors()),
    )


def _shared_out(job: JobRecord, laid: tuple[LaidFile, ...]) -> tuple[LaidFile, ...]:
    """Return the files with their numbers of sub-jobs: a fraction below 1 if a sub-job reads several files."""
    records = {one.path: one for one in job.files}
    cut = {path: one.subjobs for path, one in records.items() if one.subjobs > 1}
    whole_bytes = sum(one.size_bytes or 0 for path, one in records.items() if path not in cut)
    others = max(1, job.subjobs - sum(cut.values()))
    found = []
    for file in laid:
        own = min(1.0, others * file.size_bytes / max(1, whole_bytes, file.size_bytes))
        late = records[file.path].late_reads if file is laid[0] and file.path in records and not job.misses else 0
        found.append(replace(file, subjobs=float(cut.get(file.path, own)), late_reads=late))
    return tuple(found)


def _laid(
    files: tuple[DataFile, ...], branches: tuple[str, ...] | None, sampled: tuple[str, ...] = ()
) -> tuple[LaidFile, ...]:
    """Return the layouts of some files of the dataset, including all ``sampled`` files, whose times were measured."""
    step = max(1, -(-len(files) // PLANNED_FILES))
    chosen = [one for number, one in enumerate(files) if number % step == 0 or one.path in sampled]
    with ThreadPoolExecutor(OPENED_AT_A_TIME) as threads:
        return tuple(threads.map(lambda one: laid_file(one, branches), chosen))
