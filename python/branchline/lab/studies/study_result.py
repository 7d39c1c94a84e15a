"""The results of a study, computed from its samples: rates, ratios to the baseline with intervals, and shares of the
limits. `branchline.lab.studies.verdict` says in words what follows from them.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from branchline.base.quantities import counted
from branchline.lab.sampling.machine import was_busy
from branchline.lab.sampling.samples import StudySample
from branchline.lab.statistics import LEVEL, PAIRS_MIN, Ratio, paired_ratio
from branchline.lab.studies.storage_limits import LIMITS, limit_name_of
from branchline.lab.study import Arm, Study
from branchline.reading.locations import is_url

RESULT_VERSION = 1
#: The limit of an arm: the processors, the storage, or neither of them.
Bound = Literal["CPU", "storage", "neither"]
#: The basis on which an arm is compared: the wall time; the CPU time, because the machine was busy; or nothing, because
#: the study compares storages and the processors limit both arms.
Basis = Literal["wall time", "CPU time", "nothing"]
#: Minimum share of the processors or of a limit of the storage for these to limit an arm.
BOUND_SHARE = 0.85
#: Minimum CPU time of a sample for CPU times to be compared, since the kernel counts CPU time in ticks.
_CPU_TELLING_S = 0.1


@dataclass(frozen=True)
class LimitResult:
    """A measured limit. ``kind`` is a key of `LIMITS`. ``share`` is the ratio of the arm's read rate to the limit."""

    kind: str
    bytes_per_s: float
    share: float | None = None


@dataclass(frozen=True)
class ArmResult:
    """The result of an arm.

    - ``samples`` and ``lost`` are the numbers of successful and of failed samples.
    - Rates are medians over the samples, for all jobs together: events per second, and bytes of the files per second.
    - ``efficiency`` is the ratio of CPU time to the jobs' wall time, or to the time of the processors if these are
      fewer than the jobs.
    - ``time`` is the ratio to the baseline's time for the same work, ``cpu`` the ratio of CPU times. They are None for
      a baseline, and without complete pairs.
    - ``limit_bytes_per_s`` is the rate at which the storage delivers the files without decoding, ``limit_share`` is the
      arm's byte rate as a fraction of it.
    - ``network_share`` and ``read_share`` are the numbers of received and of read bytes per byte of the files.
    - ``failed_jobs`` is the number of failed jobs in successful samples on a farm.
    - ``bound`` is what limits the arm; None without successful samples. ``basis`` is what the arm is compared by.
    - ``is_busy`` says whether other programs kept the machine busy during the samples of the arm or of its baseline.
    """

    name: str
    levels: dict[str, str]
    baseline: str
    samples: int
    lost: int
    wall_s: float | None = None
    events_per_s: float | None = None
    bytes_per_s: float | None = None
    efficiency: float | None = None
    time: Ratio | None = None
    cpu: Ratio | None = None
    limit_bytes_per_s: float | None = None
    limit_share: float | None = None
    network_share: float | None = None
    read_share: float | None = None
    calls: float | None = None
    phases: dict[str, float] = field(default_factory=dict)
    cold: str = ""
    notes: dict[str, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    failed_jobs: int = 0
    limits: list[LimitResult] = field(default_factory=list)
    bound: Bound | None = None
    basis: Basis = "wall time"
    is_busy: bool = False

    @property
    def ratio(self) -> Ratio | None:
        """The ratio to the baseline on which the answer of the study is based."""
        return {"wall time": self.time, "CPU time": self.cpu, "nothing": None}[self.basis]

    @property
    def is_baseline(self) -> bool:
        return self.name == self.baseline


@dataclass(frozen=True)
class ControlResult:
    """A baseline compared with itself: each round takes a second sample of the baseline."""

    name: str
    time: Ratio | None
    samples: int = 0
    lost: int = 0
    notes: dict[str, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class StudyResult:
    """The results of a study. ``per`` is the unit of work for which times are compared."""

    question: str
    seed: int
    per: str
    precision: float
    rounds: int
    sessions: int
    spent_s: float
    arms: list[ArmResult]
    controls: list[ControlResult]
    is_precise: bool = False
    result_version: int = RESULT_VERSION

    @property
    def progress(self) -> str:
        """The progress of the study as text, for display while the study runs."""
        widths = [one.time.half_width for one in self.arms if one.time is not None]
        if not widths:
            return "nothing to compare yet"
        known = [one for one in widths if one is not None]
        if len(known) < len(widths):
            fewest = min(one.time.pairs for one in self.arms if one.time is not None)
            return f"{counted(fewest, 'pair')} of each arm at least, {PAIRS_MIN} give an interval"
        return f"the widest interval is +-{max(known):.1%}, wanted are +-{self.precision:.1%}"


def result_of(study: Study, seed: int, samples: Sequence[StudySample]) -> StudyResult:
    """Compute the results from the samples taken until now."""
    arms = study.arms()
    per = study.per or _common_unit(samples)
    by_arm: dict[tuple[str, str], dict[int, StudySample]] = {}
    for one in samples:
        by_arm.setdefault((one.kind, one.arm), {})[one.round] = one
    found = _with_bases([_arm_result(study, arm, arms, by_arm, per) for arm in arms], arms, by_arm)
    controls = [_control_result(one.name, by_arm, per) for one in found if one.is_baseline]
    # An arm whose baseline is skipped is compared with nothing.
    names = {one.name for one in found}
    compared = [one for one in found if not one.is_baseline and one.baseline in names]
    ratios = [one.time for one in compared or controls]
    half_widths = [None if one is None else one.half_width for one in ratios]
    is_precise = bool(ratios) and all(one is not None and one <= study.precision for one in half_widths)
    return StudyResult(
        study.question,
        seed,
        per,
        study.precision,
        max((one.round + 1 for one in samples if one.kind == "arm"), default=0),
        max((one.session + 1 for one in samples), default=0),
        samples[-1].spent_s if samples else 0.0,
        found,
        controls,
        is_precise,
    )


def _common_unit(samples: Sequence[StudySample]) -> str:
    """Return the unit of work that all arms count: events if possible, or else bytes of the files, or else jobs."""
    good = [one for one in samples if not one.error and one.kind == "arm"]
    for per in ("event", "byte"):
        if good and all(one.units(per) for one in good):
            return per
    return "job"


def _arm_result(
    study: Study,
    arm: Arm,
    arms: Sequence[Arm],
    by_arm: Mapping[tuple[str, str], Mapping[int, StudySample]],
    per: str,
) -> ArmResult:
    name, baseline = arm.name, study.baseline_of(arm)
    own, reference = by_arm.get(("arm", name), {}), by_arm.get(("arm", baseline), {})
    good = [one for one in own.values() if not one.error]
    limit = [one for one in by_arm.get(("limit", limit_name_of(arm, arms)), {}).values() if not one.error]
    bytes_per_s, limit_per_s = _median(one.rate("byte") for one in good), _median(one.rate("byte") for one in limit)
    is_compared = name != baseline
    network_part = _median(_part(one.surroundings.network_bytes + one.surroundings.loopback_bytes, one) for one in good)
    phases = dict.fromkeys(phase for one in good for job in one.good_jobs for phase in job.phases)
    # Median over the samples of the time in seconds that all jobs of a sample spent in each phase.
    phases_s = {
        phase: statistics.median(sum(job.phases.get(phase, 0.0) for job in one.good_jobs) for one in good)
        for phase in phases
    }
    return ArmResult(
        name,
        arm.levels,
        baseline,
        len(good),
        len(own) - len(good),
        _median(one.wall_s for one in good),
        _median(one.rate("event") for one in good),
        bytes_per_s,
        _median(efficiency_of(one) for one in good),
        _ratio(reference, own, per) if is_compared else None,
        _ratio(reference, own, per, is_cpu=True) if is_compared else None,
        limit_per_s,
        bytes_per_s / limit_per_s if bytes_per_s and limit_per_s else None,
        network_part if any(is_url(one) for one in arm.settings.where) else None,
        _median(_part(_sum(job.bytes_read for job in one.good_jobs), one) for one in good),
        _median(_sum(job.read_calls for job in one.good_jobs) for one in good),
        phases_s,
        next((one.cold_remark for one in good if one.cold_remark), ""),
        _notes(own.values()),
        _errors(own.values()),
        sum(len(one.jobs) - len(one.good_jobs) for one in good),
        _limits(arm, arms, by_arm, good),
    )


def _with_bases(
    found: Sequence[ArmResult], arms: Sequence[Arm], by_arm: Mapping[tuple[str, str], Mapping[int, StudySample]]
) -> list[ArmResult]:
    """Return the results with what limits each arm, and with what each arm is compared by."""
    bounds = {one.name: _bound(one, by_arm.get(("arm", one.name), {}).values()) for one in found}
    storages = {arm.name: _storage_of(arm) for arm in arms}

    def with_basis(one: ArmResult) -> ArmResult:
        taken = [*by_arm.get(("arm", one.name), {}).values(), *by_arm.get(("arm", one.baseline), {}).values()]
        is_busy = was_busy([(sample.wall_s, sample.surroundings) for sample in taken])
        basis: Basis = "CPU time" if is_busy else "wall time"
        is_other_storage = storages[one.name] != storages.get(one.baseline)
        if is_other_storage and bounds[one.name] == bounds.get(one.baseline) == "CPU":
            basis = "nothing"
        return dataclasses.replace(one, bound=bounds[one.name], basis=basis, is_busy=is_busy)

    return [with_basis(one) for one in found]


def _storage_of(arm: Arm) -> object:
    settings = arm.settings
    return settings.where, settings.served_from, settings.stage


def _bound(one: ArmResult, samples: Iterable[StudySample]) -> Bound | None:
    """Return what limits an arm. The limits of its storage are checked first, because a program that waits for the
    storage with several threads may still use as much CPU time as one processor has.
    """
    good = [sample for sample in samples if not sample.error]
    if not good:
        return None
    shares = [one.limit_share, *(limit.share for limit in one.limits)]
    shares.append(_median(sample.surroundings.device_busy_share for sample in good))
    if any(share is not None and share >= BOUND_SHARE for share in shares):
        return "storage"
    return "CPU" if one.efficiency is not None and one.efficiency >= BOUND_SHARE else "neither"


def _limits(
    arm: Arm,
    arms: Sequence[Arm],
    by_arm: Mapping[tuple[str, str], Mapping[int, StudySample]],
    good: Sequence[StudySample],
) -> list[LimitResult]:
    """Return the limits that were measured for an arm."""
    read = _median(_moved_per_s(one) for one in good)
    found = []
    for kind in LIMITS:
        samples = by_arm.get((kind, limit_name_of(arm, arms, kind)), {}).values()
        limit = _median(_moved_per_s(one) for one in samples if not one.error)
        if limit:
            found.append(LimitResult(kind, limit, read / limit if read else None))
    return found


def _moved_per_s(sample: StudySample) -> float | None:
    """Return the number of bytes per second that the jobs read, or the size of their files per second if the client
    does not count bytes.
    """
    read = _sum(job.bytes_read for job in sample.good_jobs)
    moved = sample.file_bytes if read is None else read
    return moved / sample.wall_s if moved and sample.wall_s > 0 else None


def _ratio(
    first: Mapping[int, StudySample], second: Mapping[int, StudySample], per: str, *, is_cpu: bool = False
) -> Ratio | None:
    """Return the ratio of the second arm's to the first arm's time per unit of work, paired by round; None without
    complete pairs.
    """
    pairs = []
    for number in sorted(first.keys() & second.keys()):
        one, other = first[number], second[number]
        # Compare only jobs that succeeded in both samples.
        numbers = frozenset(job.number for job in one.good_jobs) & frozenset(job.number for job in other.good_jobs)
        one_s, other_s = _unit_s(one, per, is_cpu, numbers), _unit_s(other, per, is_cpu, numbers)
        if one_s and other_s:
            pairs.append((one_s, other_s))
    return paired_ratio([one for one, _ in pairs], [one for _, one in pairs], LEVEL) if pairs else None


def _unit_s(sample: StudySample, per: str, is_cpu: bool, numbers: frozenset[int]) -> float | None:
    """Return the time in seconds per unit of work. On a farm, this is the sum over the jobs in numbers, since the time
    of the whole sample includes queue times.
    """
    if sample.place:
        jobs = [one for one in sample.good_jobs if one.number in numbers]
        seconds = sum(one.cpu_s if is_cpu else one.wall_s for one in jobs)
        sizes = [one.file_bytes for one in jobs]
        file_bytes = None if None in sizes else sum(one for one in sizes if one is not None)
        sample = dataclasses.replace(sample, jobs=jobs, file_bytes=file_bytes)
    else:
        seconds = sample.cpu_s if is_cpu else sample.wall_s
    units = sample.units(per)
    if sample.error or not units or seconds <= (_CPU_TELLING_S if is_cpu else 0.0):
        return None
    return seconds / units


def _control_result(name: str, by_arm: Mapping[tuple[str, str], Mapping[int, StudySample]], per: str) -> ControlResult:
    own = by_arm.get(("control", name), {})
    lost = sum(bool(one.error) for one in own.values())
    time = _ratio(by_arm.get(("arm", name), {}), own, per)
    return ControlResult(name, time, len(own) - lost, lost, _notes(own.values()), _errors(own.values()))


def _notes(samples: Iterable[StudySample]) -> dict[str, int]:
    """Return how often each disturbance of the machine occurred, also in failed samples, which disturbances may
    explain.
    """
    return dict(Counter(note for one in samples for note in one.surroundings.notes))


def _errors(samples: Iterable[StudySample]) -> dict[str, int]:
    """Return how often each error occurred in failed samples, and in failed jobs of other samples."""
    said = [one.error for one in samples if one.error]
    said += [job.error for one in samples if not one.error for job in one.jobs if job.error]
    return dict(Counter(one.splitlines()[0][:300] for one in said))


def efficiency_of(sample: StudySample) -> float | None:
    """Return the CPU efficiency of a sample. More jobs than processors share the processors, unless a farm ran them."""
    cores = sample.surroundings.cores
    is_shared = not sample.place and 0 < cores < len(sample.good_jobs)
    wall_s = sample.wall_s * cores if is_shared else sum(one.wall_s for one in sample.good_jobs)
    return sample.cpu_s / wall_s if wall_s else None


def _part(amount: float | None, sample: StudySample) -> float | None:
    return amount / sample.file_bytes if amount is not None and sample.file_bytes else None


def _sum(values: Iterable[float | None]) -> float | None:
    listed = list(values)
    return None if None in listed else float(sum(one for one in listed if one is not None))


def _median(values: Iterable[float | None]) -> float | None:
    known = [one for one in values if one is not None]
    return statistics.median(known) if known else None
