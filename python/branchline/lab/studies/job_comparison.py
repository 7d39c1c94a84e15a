"""Arms with many jobs: the distribution of the jobs' times, the throughput over time, and the differences from the
baseline's times for the same jobs, by type of processor.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from branchline.base.palette import COLOURS
from branchline.base.quantities import MB, duration, significant
from branchline.lab.sampling.job import JobOutcome
from branchline.lab.sampling.samples import StudySample
from branchline.lab.study import Study
from branchline.records.charts.chart import Chart
from branchline.records.charts.distributions import GROUPS_MAX, histogram_chart
from branchline.records.charts.over_time import Spans, spans_chart

#: Minimum number of jobs in a sample for their times to be shown as a distribution.
JOBS_MIN = 4
SINCE_FIRST = "time since the start of the first job"
_T = TypeVar("_T")


# --- distributions of job times ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class JobSpread:
    """The distribution of an arm's job times as text, for one type of processor or for all types. ``processor`` is
    empty if all processors have the same type. ``network`` is the rate in MB/s at which all machines received data.
    """

    arm: str
    processor: str
    jobs: int
    failed: int
    wall: str
    wall_middle: str
    wall_most: str
    cpu: str
    cpu_middle: str
    network: str


def spreads(samples: Sequence[StudySample]) -> list[JobSpread]:
    """Return the distributions for all arms with enough jobs in a sample; also by type of processor if there are
    several types.
    """
    by_arm = _by_arm(samples)
    kinds = dict.fromkeys(job.processor for own in by_arm.values() for one in own for job in one.good_jobs)
    found = []
    for arm, own in by_arm.items():
        jobs = [job for one in own for job in one.jobs]
        found.append(_spread(arm, "all" if len(kinds) > 1 else "", jobs, _network(own)))
        for kind in kinds if len(kinds) > 1 else ():
            alike = [one for one in jobs if one.processor == kind]
            if sum(not one.error for one in alike) >= JOBS_MIN:
                found.append(_spread(arm, kind, alike, ""))
    return found


def _by_arm(samples: Sequence[StudySample]) -> dict[str, list[StudySample]]:
    found: dict[str, list[StudySample]] = {}
    for one in samples:
        if one.kind == "arm" and not one.error and len(one.good_jobs) >= JOBS_MIN:
            found.setdefault(one.arm, []).append(one)
    return found


def _network(samples: Sequence[StudySample]) -> str:
    """Return the rate in MB/s at which the machines of the jobs received data, as text."""
    moved = [
        (one.surroundings.network_bytes + one.surroundings.loopback_bytes) / one.wall_s / MB
        for one in samples
        if one.wall_s > 0
    ]
    return significant(statistics.median(moved)) if moved and max(moved) > 0 else ""


def _spread(arm: str, processor: str, jobs: Sequence[JobOutcome], network: str) -> JobSpread:
    good = [one for one in jobs if not one.error]
    wall, cpu = [one.wall_s for one in good], [one.cpu_s for one in good]
    low, middle, high = statistics.quantiles(wall, n=4)
    cpu_low, cpu_middle, cpu_high = statistics.quantiles(cpu, n=4)
    twentieths = statistics.quantiles(wall, n=20, method="inclusive")
    return JobSpread(
        arm,
        processor,
        len(jobs),
        len(jobs) - len(good),
        duration(middle),
        f"{duration(low)} to {duration(high)}",
        f"{duration(twentieths[0])} to {duration(twentieths[-1])}",
        duration(cpu_middle),
        f"{duration(cpu_low)} to {duration(cpu_high)}",
        network,
    )


# --- differences between equal jobs of two arms -----------------------------------------------------------------------


@dataclass(frozen=True)
class JobDifferences:
    """The differences between the jobs of an arm and of its baseline on one type of processor.

    ``jobs`` is the number of jobs that succeeded in both arms. The other fields are the median and the interquartile
    range of their additional wall and CPU times.
    """

    arm: str
    baseline: str
    processor: str
    jobs: int
    wall: str
    wall_middle: str
    cpu: str
    cpu_middle: str


def differences(study: Study, samples: Sequence[StudySample]) -> list[JobDifferences]:
    """Return the differences for each arm with enough jobs, by the type of processor on which both jobs of a pair
    ran.
    """
    baselines = {one.name: study.baseline_of(one) for one in study.arms()}
    found = []
    for arm, pairs in pairs_of_jobs(study, samples).items():
        for processor in dict.fromkeys(mine.processor for mine, _ in pairs):
            own = [(mine, other) for mine, other in pairs if mine.processor == processor]
            wall = [mine.wall_s - other.wall_s for mine, other in own]
            cpu = [mine.cpu_s - other.cpu_s for mine, other in own]
            found.append(
                JobDifferences(
                    arm, baselines[arm], processor, len(own), _median(wall), _middle(wall), _median(cpu), _middle(cpu)
                )
            )
    return found


def pairs_of_jobs(study: Study, samples: Sequence[StudySample]) -> dict[str, list[tuple[JobOutcome, JobOutcome]]]:
    """Return pairs of jobs for each arm with enough jobs: a job of the arm, and the baseline's job with the same files
    in the same round. Both jobs succeeded and ran on the same type of processor.
    """
    taken = {one.key: one for one in samples if not one.error}
    found: dict[str, list[tuple[JobOutcome, JobOutcome]]] = {}
    for arm in study.arms():
        baseline = study.baseline_of(arm)
        if baseline == arm.name or arm.settings.jobs < JOBS_MIN:
            continue
        pairs = [
            (mine, theirs[mine.number])
            for (number, kind, name), sample in taken.items()
            if (kind, name) == ("arm", arm.name) and (other := taken.get((number, "arm", baseline))) is not None
            for theirs in [{one.number: one for one in other.good_jobs}]
            for mine in sample.good_jobs
            if mine.number in theirs and mine.processor == theirs[mine.number].processor
        ]
        if pairs:
            found[arm.name] = pairs
    return found


def _median(values: Sequence[float]) -> str:
    return _signed(statistics.median(values))


def _middle(values: Sequence[float]) -> str:
    if len(values) < JOBS_MIN:
        return ""
    low, _, high = statistics.quantiles(values, n=4)
    return f"{_signed(low)} to {_signed(high)}"


def _signed(seconds: float) -> str:
    return f"{'-' if seconds < 0 else '+'}{duration(abs(seconds))}"


# --- plots ------------------------------------------------------------------------------------------------------------


def job_charts(study: Study, samples: Sequence[StudySample]) -> list[Chart]:
    """Return the charts of the jobs of all rounds, and of the differences from the baseline."""
    by_arm = _by_arm(samples)
    if not by_arm:
        return []
    good = {arm: [job for one in own for job in one.good_jobs] for arm, own in by_arm.items()}
    made = outcome_charts(good, {arm: own[-1].good_jobs for arm, own in by_arm.items()})
    for what, seconds in (("wall", _wall_s), ("CPU", _cpu_s)):
        found = _seconds_more(study, samples, seconds)
        if found:
            made.append(histogram_chart(f"The same job: {what} time more than in the baseline", "s", found))
    return made


def network_charts(samples: Sequence[StudySample]) -> list[Chart]:
    """Return a chart of the network load during the samples of each arm; none if nothing was received."""
    taken = [
        (at, one.surroundings.network_bytes + one.surroundings.loopback_bytes, one)
        for one in samples
        if one.kind == "arm" and one.wall_s > 0 and (at := _moment(one.at)) is not None
    ]
    if not any(received for _, received, _ in taken):
        return []
    start = min(at for at, _, _ in taken)
    spans: dict[str, tuple[list[tuple[float, float]], list[float]]] = {}
    for at, received, one in taken:
        begin_s = (at - start).total_seconds()
        own, moved = spans.setdefault(one.arm, ([], []))
        own.append((begin_s, begin_s + one.wall_s))
        moved.append(received / MB)
    kinds = [
        Spans(arm, COLOURS[number % len(COLOURS)], *both)
        for number, (arm, both) in enumerate(list(spans.items())[:GROUPS_MAX])
    ]
    left_out = f" {GROUPS_MAX} of {len(spans)} arms are drawn." if len(spans) > GROUPS_MAX else ""
    note = f"Received by all programs on the machines of the jobs, including the loopback interface.{left_out}"
    end_s = max(end for one in kinds for _, end in one.spans)
    return [spans_chart("Network load", "MB/s", kinds, end_s, axis="time since the first sample", note=note)]


def _moment(at: str) -> datetime | None:
    """Return the start of a sample; None for a text that is no time with a time zone."""
    try:
        found = datetime.fromisoformat(at)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def outcome_charts(
    jobs: Mapping[str, Sequence[JobOutcome]],
    last: Mapping[str, Sequence[JobOutcome]],
    *,
    is_simulated: bool = False,
) -> list[Chart]:
    """Return histograms of the wall time, the CPU time and the throughput of jobs by arm, and the total throughput over
    time of the concurrent jobs ``last``.
    """

    def histogram(title: str, unit: str, values: dict[str, list[float]]) -> Chart:
        return histogram_chart(title, unit, values, is_simulated=is_simulated)

    made = [
        histogram("Wall time of jobs", "s", _by_kind(jobs, _wall_s, _kind_of)),
        histogram("CPU time of jobs", "s", _by_kind(jobs, _cpu_s, _kind_of)),
    ]
    sized = {arm: [one for one in own if one.file_bytes and one.wall_s > 0] for arm, own in jobs.items()}
    if any(sized.values()):
        made.append(histogram("Throughput of jobs", "MB of files/s", _by_kind(sized, _rate, _kind_of)))
    return [*made, _over_time(last, is_simulated=is_simulated)]


def _by_kind(
    every: Mapping[str, Sequence[_T]], seconds: Callable[[_T], float], kind: Callable[[_T], str]
) -> dict[str, list[float]]:
    """Return the times in seconds for each arm, split by type of processor if there are several types."""
    is_parted = len({kind(one) for own in every.values() for one in own}) > 1
    found: dict[str, list[float]] = {}
    for arm, own in every.items():
        for one in own:
            name = ", ".join(filter(None, [arm, kind(one)])) if is_parted else arm
            found.setdefault(name, []).append(seconds(one))
    return found


def _kind_of(job: JobOutcome) -> str:
    return job.processor


def _wall_s(job: JobOutcome) -> float:
    return job.wall_s


def _cpu_s(job: JobOutcome) -> float:
    return job.cpu_s


def _rate(job: JobOutcome) -> float:
    return (job.file_bytes or 0) / MB / job.wall_s


def _seconds_more(
    study: Study, samples: Sequence[StudySample], seconds: Callable[[JobOutcome], float]
) -> dict[str, list[float]]:
    """Return the additional time of each job compared with the baseline in seconds, by arm; empty if all differences
    are equal.
    """
    pairs = pairs_of_jobs(study, samples)
    found = _by_kind(pairs, lambda pair: seconds(pair[0]) - seconds(pair[1]), lambda pair: pair[0].processor)
    every = [one for values in found.values() for one in values]
    # A histogram of equal differences would show nothing.
    return found if every and max(every) > min(every) else {}


def _over_time(last: Mapping[str, Sequence[JobOutcome]], *, is_simulated: bool) -> Chart:
    """Return the throughput over time. The work of a job is spread evenly over its time."""
    has_bytes = all(job.file_bytes for own in last.values() for job in own)
    kinds, longest_s = [], 0.0
    for number, (arm, own) in enumerate(last.items()):
        begin_s = min(one.begin_s for one in own)
        spans = [(one.begin_s - begin_s, one.begin_s - begin_s + one.wall_s) for one in own]
        work = [(one.file_bytes or 0) / MB if has_bytes else 1.0 for one in own]
        kinds.append(Spans(arm, COLOURS[number % len(COLOURS)], spans, work))
        longest_s = max([longest_s, *(end for _, end in spans)])
    title = "Throughput over time" if is_simulated else "Throughput over time, in the last round"
    unit = "MB of files/s" if has_bytes else "jobs/s"
    return spans_chart(title, unit, kinds, longest_s, axis=SINCE_FIRST, is_simulated=is_simulated)
