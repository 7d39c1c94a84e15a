"""Run the reference job at storage elements at regular intervals, with its CPU benchmark.

The model is HammerCloud, which sends the same job to all sites of an experiment (D C van der Ster et al., "HammerCloud:
a stress testing system for distributed analysis", J. Phys.: Conf. Ser. 331 (2011) 072036).
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from branchline.base.plain import to_plain
from branchline.base.quantities import MB
from branchline.errors import OptionError
from branchline.lab.reference.frozen_file import KNOWN, REFERENCE_VERSION, FrozenFile
from branchline.lab.reference.measures import ReferenceMeasures
from branchline.lab.sampling.farms import taker_on
from branchline.lab.sampling.job import this_host
from branchline.lab.sampling.machine import was_busy
from branchline.lab.sampling.samples import SAMPLES, SampleFile, StudySample
from branchline.lab.statistics import PAIRS_MIN, paired_ratio
from branchline.lab.studies.history import HistoryPoint, ReferencePoint
from branchline.lab.studies.schedule import WatchTurn
from branchline.lab.studies.study_run import FailedStudyError, StudyRun
from branchline.lab.study import Factor, JobSettings, Level, Study, Value
from branchline.records.sensors.this_process import processor

#: Minimum reading time in seconds: less is not told from zero.
_FETCH_MIN_S = 1e-6


@dataclass(frozen=True, kw_only=True)
class ReferenceWatch:
    """The settings for running the reference job at storage elements.

    ``where`` are the storage elements, which all have the file ``frozen``. A turn takes ``samples`` samples of each and
    has the time limit ``budget_s``; ``wait_s`` is the timeout of a sample. ``on`` is the farm that runs the jobs, as
    for `taker_on`.
    """

    where: tuple[str, ...]
    frozen: FrozenFile = KNOWN
    samples: int = PAIRS_MIN
    budget_s: float = 600.0
    wait_s: float = 300.0
    on: object = None

    @property
    def files(self) -> tuple[str, ...]:
        return (self.frozen.name,)

    def check(self) -> None:
        if not self.where or len(set(self.where)) < len(self.where):
            raise OptionError("the reference job needs one or more distinct storages")
        if self.samples < PAIRS_MIN:
            raise OptionError(f"{self.samples} samples are too few for an interval", hint=f"use {PAIRS_MIN} or more")

    def study(self) -> Study:
        """Return the study that measures one turn. Each round takes two samples of each storage element, as each is its
        own baseline.
        """
        levels = tuple(Level(one, {"where": (one,)}) for one in self.where)
        options: dict[str, Value] = {name: getattr(self.frozen, name) for name in to_plain(self.frozen)}
        return Study(
            question="How fast is the reference job now?",
            job=JobSettings(files=self.files, client="reference", options=options, cold=True),
            factors=(Factor("storage", levels),),
            precision=0.001,
            budget_s=self.budget_s,
            rounds_max=-(-self.samples // 2),
            wait_s=self.wait_s,
            limits=False,
        )

    def measured(self, there: tuple[str, ...], turn: WatchTurn) -> list[HistoryPoint]:
        study = replace(self, where=there).study()
        run = StudyRun(study, turn.study, turn.seed, taker_on(self.on, turn.folder), turn.say)
        storages = {arm.name: arm.levels["storage"] for arm in study.arms()}
        # The samples have the errors.
        with suppress(FailedStudyError):
            run.run()
        runs: dict[_Series, list[_Run]] = {}
        for sample in SampleFile(turn.study / SAMPLES).read():
            run_of_job = _Run.of(sample)
            series = _Series(storages[sample.arm], run_of_job.processor, sample.place)
            runs.setdefault(series, []).append(run_of_job)
        ordered = sorted(runs, key=lambda series: (there.index(series.storage), series))
        return [self._point(series, runs[series], turn) for series in ordered]

    def _point(self, series: _Series, taken: Sequence[_Run], turn: WatchTurn) -> HistoryPoint:
        """Return the result of a turn from all samples of a storage element on one type of worker."""
        good = [one.measures for one in taken if one.measures is not None and not one.measures.wrong]
        wrong = next((one.measures.wrong for one in taken if one.measures is not None and one.measures.wrong), "")
        reference = ReferencePoint(REFERENCE_VERSION, self.frozen.events, wrong=wrong)
        ratio, bytes_per_s = None, None
        if good:
            ratio = paired_ratio([one.benchmark_s for one in good], [one.read_s for one in good])
            bytes_per_s = statistics.median(one.bytes_read / one.read_s for one in good)
            reference = replace(
                reference,
                fetch_bytes_per_s=statistics.median(one.bytes_read / max(one.fetch_s, _FETCH_MIN_S) for one in good),
                call_bytes=statistics.median(one.bytes_read / max(one.read_calls, 1) for one in good),
                read_s=statistics.median(one.read_s for one in good),
                benchmark_cpu_s=statistics.median(one.benchmark_cpu_s for one in good),
            )
        return HistoryPoint(
            turn.at,
            series.storage,
            None if ratio is None else ratio.value,
            None if ratio is None else ratio.low,
            None if ratio is None else ratio.high,
            None if bytes_per_s is None else bytes_per_s / MB,
            len(good),
            len(taken) - len(good),
            next((one.error for one in taken if one.error), ""),
            host=taken[0].host or this_host(),
            seed=turn.seed,
            is_busy=was_busy([(one.sample.wall_s, one.sample.surroundings) for one in taken]),
            processor=series.processor,
            place=series.place,
            reference=reference,
        )


class _Series(NamedTuple):
    """The storage element, the processor and the farm of samples that are summarised together."""

    storage: str
    processor: str
    place: str


@dataclass(frozen=True)
class _Run:
    """A sample, which has one job, and what that job measured; ``measures`` is None if it failed."""

    sample: StudySample
    measures: ReferenceMeasures | None
    processor: str
    host: str
    error: str

    @classmethod
    def of(cls, sample: StudySample) -> _Run:
        job = next(iter(sample.jobs), None)
        here = "" if sample.place else processor()
        if job is None:
            return cls(sample, None, here, "", sample.error)
        return cls(sample, job.reference, job.processor or here, job.host, sample.error or job.error)
