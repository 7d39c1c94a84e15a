"""Ratios of arms from a study's samples, and the verdicts on published findings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from branchline.base.quantities import GB, counted, duration, size
from branchline.lab.sampling.machine import was_busy
from branchline.lab.sampling.samples import SAMPLES, SampleFile, StudySample, load_kept
from branchline.lab.statistics import PAIRS_MIN, Ratio, paired_ratio
from branchline.lab.studies.study_result import ArmResult, StudyResult, efficiency_of
from branchline.lab.study import Study, arm_name
from studies.published import COSTS, COUNTS, Finding, Levels, Published

FOUND, NOT_FOUND, UNSURE, UNMEASURED = "found again", "not found", "not sure", "not measured"
#: The ratio agrees, but the samples show that its cause is not the published one.
OTHER_MECHANISM = "same ratio, another mechanism"
#: The samples do not allow a verdict: small files, other programs on the machine, or an unknown mechanism.
NOT_JUDGED = "not judged"
VERDICTS = (FOUND, OTHER_MECHANISM, NOT_FOUND, UNSURE, NOT_JUDGED, UNMEASURED)
_DISTURBED_BY_LOAD = ("events_per_s", "bytes_per_s", "wall_s", "efficiency")
#: Minimum duration of a sample in seconds for rates to be judged, and minimum bytes that a job reads in an arm that the
#: storage must limit.
SAMPLE_S_MIN, JOB_BYTES_MIN = 2.0, 2 * GB
#: Minimum ratio of two counts for these to differ.
COUNTS_DIFFER = 1.1
#: Maximum efficiency of an arm that waits for answers, if neither the processors nor the storage limit it.
WAITING_EFFICIENCY_MAX = 0.5


@dataclass(frozen=True)
class ArmRatio:
    """The ratio of a quantity or a count of two arms, from samples of the same rounds.

    ``is_busy`` says whether other programs kept the machine busy; None if the samples do not record this.
    """

    quantity: str
    of: Levels
    over: Levels
    ratio: Ratio
    is_busy: bool | None = None


@dataclass(frozen=True)
class Judgement:
    """The verdict on a finding, and the reason for it."""

    finding: Finding
    verdict: str
    reason: str
    ratio: Ratio | None = None


class Samples:
    """The samples of a study by arm and round."""

    def __init__(self, study: Study, samples: list[StudySample]) -> None:
        self._factors = [one.name for one in study.factors]
        self._by_arm: dict[str, dict[int, StudySample]] = {}
        for one in samples:
            if one.kind == "arm" and not one.error:
                self._by_arm.setdefault(one.arm, {})[one.round] = one

    @classmethod
    def of(cls, folder: Path) -> Samples:
        return cls(load_kept(folder).study, SampleFile(folder / SAMPLES).read())

    def ratio(self, quantity: str, of: Levels, over: Levels) -> ArmRatio | None:
        """Return the ratio of a quantity of two arms; None without a round in which both were measured."""
        above, below = self._arm(of), self._arm(over)
        pairs = [
            (quantity_of(below[number], quantity), quantity_of(above[number], quantity))
            for number in sorted(above.keys() & below.keys())
        ]
        known = [(first, second) for first, second in pairs if first and second]
        if not known:
            return None
        taken = [(one.wall_s, one.surroundings) for arm in (above, below) for one in arm.values()]
        ratio = paired_ratio([first for first, _ in known], [second for _, second in known])
        return ArmRatio(quantity, of, over, ratio, was_busy(taken))

    def _arm(self, levels: Levels) -> dict[int, StudySample]:
        return self._by_arm.get(arm_name({one: levels[one] for one in self._factors if one in levels}), {})


def quantity_of(sample: StudySample, quantity: str) -> float | None:
    """Return a quantity or a count of a sample; None if its client does not report it."""
    size, events = sample.file_bytes, sample.events or None
    calls = _total([one.read_calls for one in sample.jobs])
    read = _total([one.bytes_read for one in sample.jobs])
    moved = sample.surroundings.network_bytes + sample.surroundings.loopback_bytes
    amounts: dict[str, tuple[float | None, float | None]] = {
        "events_per_s": (events, sample.wall_s),
        "bytes_per_s": (size, sample.wall_s),
        "wall_s": (sample.wall_s, 1),
        "efficiency": (efficiency_of(sample), 1),
        "calls": (calls, 1),
        "read_share": (read, size),
        "network_share": (moved, size),
        "reads": (calls, events),
        "bytes": (read, events),
        "CPU": (sample.cpu_s, events),
    }
    amount, per = amounts[quantity]
    return amount / per if amount is not None and per else None


def ratios_of(published: Published, samples: Samples) -> list[ArmRatio]:
    """Return the ratios that the findings need: of their quantities, and of the counts that show their mechanisms."""
    wanted = [(one, name) for one in published.findings for name in (one.quantity, *one.counts)]
    found = [samples.ratio(name, one.of, one.over) for one, name in wanted]
    return [one for one in found if one is not None]


def judgements(
    published: Published, result: StudyResult | None, ratios: Sequence[ArmRatio], *, is_quick: bool
) -> list[Judgement]:
    """Return a verdict on each finding of a study."""
    return [judge(one, result, ratios, is_quick=is_quick) for one in published.findings]


def judge(finding: Finding, result: StudyResult | None, ratios: Sequence[ArmRatio], *, is_quick: bool) -> Judgement:
    """Return the verdict on a finding. It is found again only if the whole interval lies within the bounds and the
    samples show that the published mechanism is at work.
    """
    measured = _ratio(ratios, finding.quantity, finding)
    if measured is None or result is None:
        return Judgement(finding, UNMEASURED, "no round has samples of both arms")
    ratio = measured.ratio
    if is_quick:
        return Judgement(finding, NOT_JUDGED, "the quick form has small files and one round", ratio)
    if finding.quantity in _DISTURBED_BY_LOAD and measured.is_busy is not False:
        why = "the samples do not record the load from other programs"
        return Judgement(
            finding, NOT_JUDGED, "other programs kept the machine busy" if measured.is_busy else why, ratio
        )
    if ratio.low is None or ratio.high is None:
        return Judgement(finding, UNSURE, f"{counted(ratio.pairs, 'pair')}; an interval needs {PAIRS_MIN}", ratio)
    if finding.quantity in _DISTURBED_BY_LOAD and (why := _too_small(finding, result)):
        return Judgement(finding, NOT_JUDGED, why, ratio)
    evidence = _evidence(finding, result, ratios)
    if evidence.is_at_work is None:
        return Judgement(finding, NOT_JUDGED, evidence.text, ratio)
    if ratio.high < finding.least or ratio.low > finding.most:
        why = f"the interval is outside the bounds; {evidence.text}"
        return Judgement(finding, NOT_JUDGED if evidence.is_masked else NOT_FOUND, why, ratio)
    if ratio.low < finding.least or ratio.high > finding.most:
        return Judgement(finding, UNSURE, f"the interval contains a bound; {evidence.text}", ratio)
    is_same = evidence.is_at_work and finding.mechanism.is_same
    return Judgement(finding, FOUND if is_same else OTHER_MECHANISM, evidence.text, ratio)


def _too_small(finding: Finding, result: StudyResult) -> str:
    """Return why the samples are too small for a verdict on a rate; empty if they are not."""
    limiters = [(finding.of, finding.limited_by.get("of")), (finding.over, finding.limited_by.get("over"))]
    for levels, limiter in limiters:
        arm = next((one for one in result.arms if one.levels == levels), None)
        if arm is None or not arm.wall_s:
            continue
        if arm.wall_s < SAMPLE_S_MIN:
            return f"samples of {arm.name} take {duration(arm.wall_s)}, and {duration(SAMPLE_S_MIN)} are needed"
        read = (arm.bytes_per_s or 0.0) * arm.wall_s / int(arm.levels.get("jobs", "1"))
        if limiter == "storage" and read < JOB_BYTES_MIN:
            return f"a job of {arm.name} reads {size(read)}, and {size(JOB_BYTES_MIN)} are needed"
    return ""


def limiter_of(arm: ArmResult) -> str | None:
    """Return what limits an arm: CPU, storage, latency or neither; None if this is unknown."""
    is_waiting = arm.efficiency is not None and arm.efficiency < WAITING_EFFICIENCY_MAX
    return "latency" if arm.bound == "neither" and is_waiting else arm.bound


@dataclass(frozen=True)
class _Evidence:
    """Evidence for a mechanism in the samples. ``is_at_work`` is None if they do not tell. With ``is_masked``, the CPU
    limits an arm that its storage should limit, which hides the storage.
    """

    is_at_work: bool | None
    is_masked: bool
    text: str


def _evidence(finding: Finding, result: StudyResult, ratios: Sequence[ArmRatio]) -> _Evidence:
    arms = {"of": finding.of, "over": finding.over}
    holds: list[bool | None] = []
    texts = []
    is_masked = False
    for side, wanted in finding.limited_by.items():
        arm = next((one for one in result.arms if one.levels == arms[side]), None)
        limiter = limiter_of(arm) if arm is not None else None
        holds.append(None if limiter is None else limiter == wanted)
        is_masked = is_masked or (limiter == "CPU" and wanted != "CPU")
        name = arm_name(arms[side])
        texts.append(f"what limits {name} was not measured" if limiter is None else f"{name}: limited by {limiter}")
    for name in finding.counts:
        measured = _ratio(ratios, name, finding)
        holds.append(None if measured is None else _explains(finding, measured.ratio))
        shown = "not measured" if measured is None else f"{measured.ratio.value:.3g} times as many"
        texts.append(f"{COUNTS[name]}: {shown}")
    is_at_work = False if False in holds else None if None in holds else True
    return _Evidence(is_at_work, is_masked, ", ".join(texts))


def _explains(finding: Finding, count: Ratio) -> bool:
    """Return whether a count differs between the arms, and in the direction of the published ratio."""
    log = math.log(count.value)
    direction = math.log(finding.ratio) * (1 if finding.quantity in COSTS else -1)
    return abs(log) >= math.log(COUNTS_DIFFER) and log * direction > 0


def _ratio(ratios: Sequence[ArmRatio], quantity: str, finding: Finding) -> ArmRatio | None:
    wanted = (quantity, finding.of, finding.over)
    return next((one for one in ratios if (one.quantity, one.of, one.over) == wanted), None)


def _total(amounts: Sequence[float | None]) -> float | None:
    return None if None in amounts else float(sum(one for one in amounts if one is not None))
