"""The results of a study, computed from its samples: rates, ratios to the baseline with intervals, and shares of the
limit.

`sentences` says them in words: the control first, then the answer, then what disturbs it.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from branchline.base.quantities import count, counted, percent, rate, significant
from branchline.lab.comparison.compare import shown_ratio
from branchline.lab.sampling.job import JobOutcome
from branchline.lab.sampling.samples import StudySample
from branchline.lab.statistics import LEVEL, PAIRS_MIN, Ratio, paired_ratio
from branchline.lab.studies.storage_limits import LIMITS, limit_name_of
from branchline.lab.study import Arm, Study
from branchline.reading.locations import is_url

RESULT_VERSION = 1
#: Less CPU time cannot be compared: the kernel counts it in ticks.
_CPU_TELLING_S = 0.1


@dataclass(frozen=True)
class LimitResult:
    """A limit beside an arm, of one of the kinds of `LIMITS`: bytes per second, and those that the arm reads per second
    as a ``share`` of it.
    """

    kind: str
    bytes_per_s: float
    share: float | None = None


@dataclass(frozen=True)
class ArmResult:
    """What was found of an arm. Rates are medians over its samples, of all jobs together: events and bytes of the files
    per second. ``time`` says how many times the baseline's time it takes for the same work, ``cpu`` the same of CPU
    time; None for a baseline, and where no pair is whole. ``efficiency`` is CPU time as a part of the jobs' wall time.
    ``limit_share`` is its rate of bytes as a part of what the storage gives when its files are only read.
    Bytes over the network and from disks are for each byte of the files. ``failed_jobs`` are those on a farm.
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

    @property
    def is_baseline(self) -> bool:
        return self.name == self.baseline


@dataclass(frozen=True)
class ControlResult:
    """A baseline beside itself: its second sample of each round."""

    name: str
    time: Ratio | None
    samples: int = 0
    lost: int = 0
    notes: dict[str, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class StudyResult:
    """The answer of a study. ``per`` is what its ratios count."""

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
        """How it stands, for who waits."""
        widths = [one.time.half_width for one in self.arms if one.time is not None]
        if not widths:
            return "nothing to compare yet"
        known = [one for one in widths if one is not None]
        if len(known) < len(widths):
            fewest = min(one.time.pairs for one in self.arms if one.time is not None)
            return f"{counted(fewest, 'pair')} of each arm at least, {PAIRS_MIN} give an interval"
        return f"the widest interval is +-{max(known):.1%}, wanted are +-{self.precision:.1%}"


def result_of(study: Study, seed: int, samples: Sequence[StudySample]) -> StudyResult:
    """What the samples say so far."""
    arms = study.arms()
    per = study.per or _common_unit(samples)
    by_arm: dict[tuple[str, str], dict[int, StudySample]] = {}
    for one in samples:
        by_arm.setdefault((one.kind, one.arm), {})[one.round] = one
    found = [_arm_result(study, arm, arms, by_arm, per) for arm in arms]
    controls = [_control_result(one.name, by_arm, per) for one in found if one.is_baseline]
    ratios = [one.time for one in found if not one.is_baseline] or [one.time for one in controls]
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
        bool(ratios) and all(_is_narrow(one, study.precision) for one in ratios),
    )


def _is_narrow(ratio: Ratio | None, precision: float) -> bool:
    return ratio is not None and ratio.half_width is not None and ratio.half_width <= precision


def _common_unit(samples: Sequence[StudySample]) -> str:
    """What all arms count: events if they do, else bytes of the files, else jobs."""
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
    return ArmResult(
        name,
        arm.levels,
        baseline,
        len(good),
        len(own) - len(good),
        _median(one.wall_s for one in good),
        _median(one.rate("event") for one in good),
        bytes_per_s,
        _median(_efficiency(one) for one in good),
        _ratio(reference, own, per) if is_compared else None,
        _ratio(reference, own, per, is_cpu=True) if is_compared else None,
        limit_per_s,
        bytes_per_s / limit_per_s if bytes_per_s and limit_per_s else None,
        _median(_network_part(one) for one in good) if _is_remote(arm) else None,
        _median(_part(_sum(job.bytes_read for job in one.good_jobs), one) for one in good),
        _median(_sum(job.read_calls for job in one.good_jobs) for one in good),
        _phases(good),
        next((one.cold_remark for one in good if one.cold_remark), ""),
        _notes(own.values()),
        _errors(own.values()),
        sum(len(one.jobs) - len(one.good_jobs) for one in good),
        _limits(arm, arms, by_arm, good),
    )


def _limits(
    arm: Arm,
    arms: Sequence[Arm],
    by_arm: Mapping[tuple[str, str], Mapping[int, StudySample]],
    good: Sequence[StudySample],
) -> list[LimitResult]:
    """Each limit that was measured beside an arm."""
    read = _median(_moved_per_s(one) for one in good)
    found = []
    for kind in LIMITS:
        samples = by_arm.get((kind, limit_name_of(arm, arms, kind)), {}).values()
        limit = _median(_moved_per_s(one) for one in samples if not one.error)
        if limit:
            found.append(LimitResult(kind, limit, read / limit if read else None))
    return found


def _moved_per_s(sample: StudySample) -> float | None:
    """Bytes that the jobs read in a second; those of their files where a client does not count them."""
    read = _sum(job.bytes_read for job in sample.good_jobs)
    moved = sample.file_bytes if read is None else read
    return moved / sample.wall_s if moved and sample.wall_s > 0 else None


def _ratio(
    first: Mapping[int, StudySample], second: Mapping[int, StudySample], per: str, *, is_cpu: bool = False
) -> Ratio | None:
    """The time for a unit of work, beside that of the same round; None where no pair is whole."""
    pairs = [
        (one, other)
        for number in sorted(first.keys() & second.keys())
        for numbers in [_jobs_of_both(first[number], second[number])]
        if (one := _unit_s(first[number], per, is_cpu, numbers))
        and (other := _unit_s(second[number], per, is_cpu, numbers))
    ]
    return paired_ratio([one for one, _ in pairs], [one for _, one in pairs], LEVEL) if pairs else None


def _jobs_of_both(first: StudySample, second: StudySample) -> frozenset[int]:
    """The numbers of the jobs that failed in neither."""
    return frozenset(one.number for one in first.good_jobs) & frozenset(one.number for one in second.good_jobs)


def _unit_s(sample: StudySample, per: str, is_cpu: bool, numbers: frozenset[int]) -> float | None:
    """Seconds for a unit of work. On a farm they are those of the jobs with these numbers, since what jobs wait for in
    its queue is nothing of theirs.
    """
    if sample.place:
        jobs = [one for one in sample.good_jobs if one.number in numbers]
        seconds = sum(one.cpu_s if is_cpu else one.wall_s for one in jobs)
        sample = dataclasses.replace(sample, jobs=jobs, file_bytes=_file_bytes(jobs))
    else:
        seconds = sample.cpu_s if is_cpu else sample.wall_s
    units = sample.units(per)
    if sample.error or not units or seconds <= (_CPU_TELLING_S if is_cpu else 0.0):
        return None
    return seconds / units


def _file_bytes(jobs: Sequence[JobOutcome]) -> int | None:
    sizes = [one.file_bytes for one in jobs]
    return None if None in sizes else sum(one for one in sizes if one is not None)


def _control_result(name: str, by_arm: Mapping[tuple[str, str], Mapping[int, StudySample]], per: str) -> ControlResult:
    own = by_arm.get(("control", name), {})
    lost = sum(bool(one.error) for one in own.values())
    time = _ratio(by_arm.get(("arm", name), {}), own, per)
    return ControlResult(name, time, len(own) - lost, lost, _notes(own.values()), _errors(own.values()))


def _notes(samples: Iterable[StudySample]) -> dict[str, int]:
    """What disturbed the machine, and in how many samples, also in those that failed: it may be why."""
    return dict(Counter(note for one in samples for note in one.surroundings.notes))


def _errors(samples: Iterable[StudySample]) -> dict[str, int]:
    """How often what was said of samples that failed, and of jobs that failed in others."""
    said = [one.error for one in samples if one.error]
    said += [job.error for one in samples if not one.error for job in one.jobs if job.error]
    return dict(Counter(one.splitlines()[0][:300] for one in said))


def _efficiency(sample: StudySample) -> float | None:
    wall_s = sum(one.wall_s for one in sample.good_jobs)
    return sample.cpu_s / wall_s if wall_s else None


def _is_remote(arm: Arm) -> bool:
    return any(is_url(one) for one in arm.settings.where)


def _network_part(sample: StudySample) -> float | None:
    return _part(sample.surroundings.network_bytes + sample.surroundings.loopback_bytes, sample)


def _part(amount: float | None, sample: StudySample) -> float | None:
    return amount / sample.file_bytes if amount is not None and sample.file_bytes else None


def _sum(values: Iterable[float | None]) -> float | None:
    listed = list(values)
    return None if None in listed else float(sum(one for one in listed if one is not None))


def _median(values: Iterable[float | None]) -> float | None:
    known = [one for one in values if one is not None]
    return statistics.median(known) if known else None


def _phases(samples: Sequence[StudySample]) -> dict[str, float]:
    """Seconds of each phase in all jobs of a sample: medians."""
    names = dict.fromkeys(name for one in samples for job in one.good_jobs for name in job.phases)
    return {
        name: statistics.median(sum(job.phases.get(name, 0.0) for job in one.good_jobs) for one in samples)
        for name in names
    }


def answer(found: StudyResult) -> str:
    """The answer in one sentence: the fastest arm, and how much faster than its baseline it is."""
    compared = [one for one in found.arms if one.time is not None]
    if not compared:
        measured = [one for one in found.arms if one.samples]
        if not measured:
            return "nothing could be measured"
        fastest = max(measured, key=_speed)
        return f"fastest is {fastest.name} with {speed_of(fastest)}; nothing is compared with a baseline"
    sure = [one for one in compared if one.time is not None and one.time.differs]
    if not sure:
        if all(one.time is not None and one.time.low is None for one in compared):
            pairs = max(one.time.pairs for one in compared if one.time is not None)
            return f"{counted(pairs, 'pair')} say nothing on how sure anything is: {PAIRS_MIN} are needed"
        return "no arm differs from its baseline by more than the intervals say"
    faster = [one for one in sure if one.time is not None and one.time.value < 1.0]
    if not faster:
        worst = max(sure, key=lambda one: one.time.value if one.time is not None else 0.0)
        return f"nothing is faster than its baseline; slowest beside it is {_beside(worst)}"
    best = min(faster, key=lambda one: one.time.value if one.time is not None else 1.0)
    others = f"; {len(faster) - 1} more are faster" if len(faster) > 1 else ""
    return f"fastest beside its baseline is {_beside(best)}{others}"


def sentences(found: StudyResult) -> list[str]:
    """The control, the answer, and what disturbs it."""
    lines = [_control_sentence(one.name, one.time) for one in found.controls]
    lines.append(answer(found))
    lines += [
        f"{one.name}: left out {counted(one.lost, 'time')}: {_most_frequent(one.errors)}"
        for one in found.arms
        if one.lost
    ]
    lines += [
        f"{one.name}: its control was left out {counted(one.lost, 'time')}: {_most_frequent(one.errors)}"
        for one in found.controls
        if one.lost
    ]
    lines += [
        f"{one.name}: {counted(one.failed_jobs, 'job')} failed: {_most_frequent(one.errors)}"
        for one in found.arms
        if one.failed_jobs
    ]
    every: list[ArmResult | ControlResult] = [*found.arms, *found.controls]
    notes: Counter[str] = Counter()
    for taken in every:
        notes.update(taken.notes)
    samples = sum(taken.samples + taken.lost for taken in every)
    lines += [f"in {number} of {counted(samples, 'sample')} {note}" for note, number in notes.items()]
    lines += [f"not proved cold: {remark}" for remark in dict.fromkeys(one.cold for one in found.arms if one.cold)]
    if found.sessions > 1:
        lines.append(f"interrupted {counted(found.sessions - 1, 'time')}, and gone on with")
    if not found.is_precise:
        lines.append(f"ended before all intervals were within +-{percent(found.precision, 1.0)}")
    return lines


def speed_of(one: ArmResult) -> str:
    """Its rates with what they count."""
    parts = []
    if one.events_per_s is not None:
        parts.append(f"{count(one.events_per_s)} events/s")
    if one.bytes_per_s is not None:
        parts.append(rate(one.bytes_per_s, 1.0))
    if not parts and one.wall_s:
        parts.append(f"{significant(one.wall_s)} s")
    return ", ".join(parts) or "nothing measured"


def _speed(one: ArmResult) -> float:
    return one.events_per_s or one.bytes_per_s or (1 / one.wall_s if one.wall_s else 0.0)


def _beside(one: ArmResult) -> str:
    assert one.time is not None
    times = 1 / one.time.value
    speed = f"{times:.3g} times as fast" if times >= 1 else f"{one.time.value:.3g} times the time"
    return f"{one.name}: {speed} ({shown_ratio(one.time)} the time of {one.baseline}; {speed_of(one)})"


def _control_sentence(name: str, time: Ratio | None) -> str:
    if time is None:
        return f"control: {name} was not measured twice in any round"
    line = f"control: {name} takes {shown_ratio(time)} its own time"
    if time.differs:
        return f"{line}: something else disturbs the machine, and the answer below is doubtful"
    return line


def _most_frequent(errors: dict[str, int]) -> str:
    return max(errors, key=lambda one: errors[one]) if errors else "it failed"
