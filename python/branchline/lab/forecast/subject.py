"""What is forecast: a job by its record, or the reading of a dataset, with the files as they lie."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

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

#: Files whose metadata are read, spread over the dataset: the others are taken to be like them.
PLANNED_FILES = 64
#: Files that are opened at a time.
OPENED_AT_A_TIME = 16
JOB_FILE = "job.json"


@dataclass(frozen=True)
class Subject:
    """Some work: ``files`` are all its files, ``laid`` those of them whose metadata were read, ``branches`` what is
    wanted (None for all). ``job`` is the record of a job that was done. ``calibrated`` says how old the calibration is
    whose rates are used, too; ``errors`` are those of forecasts that were checked on this machine, if there are enough.
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
    memory_limit_bytes: int = 2**30
    job: JobRecord | None = None
    calibrated: str = ""
    errors: Errors | None = None

    @property
    def stream_bytes(self) -> int:
        """The memory of what reads: in a job two streams share the limit at the border of two sub-jobs."""
        return self.memory_limit_bytes // 2 if self.job else self.memory_limit_bytes

    @property
    def scale(self) -> float:
        """How many times more files there are than were planned."""
        return len(self.files) / max(1, len(self.laid))


def is_job(location: str) -> bool:
    """Whether a location is a directory of results, or the record of a job."""
    path = Path(location)
    return path.name == JOB_FILE or (path / JOB_FILE).is_file()


def job_record(location: str) -> JobRecord:
    """The record of a job. Raises BadFileError for what is none."""
    path = Path(location)
    path = path / JOB_FILE if path.is_dir() else path
    try:
        return JobRecord.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise BadFileError(f"{path} is no record of a job: {error}") from error


def subject_of(location: list[str], branches: tuple[str, ...] | None = None, access: Access | None = None) -> Subject:
    """The job whose directory of results or record is named, else the reading of a dataset, of which a sample is read
    to measure the rates. Raises what reading raises.
    """
    if len(location) == 1 and is_job(location[0]):
        return _of_job(location[0], branches)
    files = tuple(Dataset.of(location))
    if not files:
        raise OptionError("the dataset has no files")
    chosen = access or Access()
    rates = measured(files, branches, chosen)
    known = load_calibration()
    laid = _laid(files, branches, rates.sample_paths)
    cores = cpu_count()
    rates = with_calibrated(rates, known)
    words = known.age_words() if known else ""
    errors = errors_seen(load_checked().here().log_errors())
    return Subject(location[0], files, laid, branches, chosen, rates, 1, cores, cores, calibrated=words, errors=errors)


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
    return Subject(
        name=location,
        files=files,
        laid=laid,
        branches=wanted,
        access=_access(job),
        rates=with_calibrated(_for_each_opening(rates_of_job(job), laid, job.workers), known),
        workers=max(1, job.workers),
        threads=max(1, job.threads),
        cores=max(1, job.cpu_count),
        fixed_s=fixed_s,
        step_entries=job.step_entries or None,
        memory_limit_bytes=job.memory_limit_bytes or 2**30,
        job=job,
        calibrated=known.age_words() if known else "",
        errors=errors_seen(load_checked().here().log_errors()),
    )


def _shared_out(job: JobRecord, laid: tuple[LaidFile, ...]) -> tuple[LaidFile, ...]:
    """The files with the sub-jobs that read them: those of a file that was cut, or its part of one that had others."""
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


def _for_each_opening(rates: Rates, laid: tuple[LaidFile, ...], workers: int) -> Rates:
    """A record has the time of all openings of a file."""
    return replace(rates, open_s=rates.open_s * len(laid) / max(1, openings(pieces_of(laid, max(1, workers)))))


def _access(job: JobRecord) -> Access:
    settings = cast(Mapping[str, Any], {"mode": job.access.mode, **dict(job.access.chosen())})
    return Access(**settings)


def _laid(
    files: tuple[DataFile, ...], branches: tuple[str, ...] | None, sampled: tuple[str, ...] = ()
) -> tuple[LaidFile, ...]:
    """Files of the dataset, those that were ``sampled`` among them: the model is compared with what they took."""
    step = max(1, -(-len(files) // PLANNED_FILES))
    chosen = [one for number, one in enumerate(files) if number % step == 0 or one.path in sampled]
    with ThreadPoolExecutor(OPENED_AT_A_TIME) as threads:
        return tuple(threads.map(lambda one: laid_file(one, branches), chosen))
