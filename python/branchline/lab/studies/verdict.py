"""Sentences about the results of a study: the control, the answer, and the limits of both.

The answer compares wall times only if the machine was not busy with other programs, and storages only if the storage,
not the processors, limits an arm. Otherwise it compares CPU times, or says why nothing is compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from branchline.base.quantities import count, counted, percent, rate, significant
from branchline.lab.comparison.compare import shown_ratio
from branchline.lab.statistics import PAIRS_MIN
from branchline.lab.studies.study_result import ArmResult, ControlResult, StudyResult


def answer(found: StudyResult) -> str:
    """Return the answer in one sentence: the fastest arm, and how much faster it is than its baseline."""
    compared = [one for one in found.arms if one.time is not None]
    if not compared:
        measured = [one for one in found.arms if one.samples]
        if not measured:
            return "nothing could be measured"
        fastest = max(measured, key=_speed)
        return f"the fastest arm is {fastest.name} with {speed_of(fastest)}; no arm was compared with a baseline"
    known = [one for one in compared if one.ratio is not None]
    if not known:
        return _no_answer(compared)
    sure = [one for one in known if one.ratio is not None and one.ratio.differs]
    if not sure:
        if all(one.ratio is not None and one.ratio.low is None for one in known):
            pairs = max(one.ratio.pairs for one in known if one.ratio is not None)
            return f"{counted(pairs, 'pair')}: too few for an answer, which needs {PAIRS_MIN}"
        return "no arm differs from its baseline by more than its interval"
    faster = [one for one in sure if one.ratio is not None and one.ratio.value < 1.0]
    if not faster:
        worst = max(sure, key=lambda one: one.ratio.value if one.ratio is not None else 0.0)
        return f"no arm is faster than its baseline; the slowest relative to it is {_beside(worst)}"
    best = min(faster, key=lambda one: one.ratio.value if one.ratio is not None else 1.0)
    others = f"; {len(faster) - 1} more are faster than their baselines" if len(faster) > 1 else ""
    return f"the fastest arm relative to its baseline is {_beside(best)}{others}"


def _no_answer(compared: Sequence[ArmResult]) -> str:
    """Return why no arm is compared with its baseline."""
    if any(one.basis == "CPU time" for one in compared):
        return "no answer: the machine was busy with other programs, and the CPU times are too short to compare"
    return "no answer about the storages: the processors, not the storages, limit the arms and their baselines"


def sentences(found: StudyResult) -> list[str]:
    """Return the control, the answer, and disturbances of the measurements, one sentence each."""
    lines = []
    for control in found.controls:
        if control.time is None:
            lines.append(f"control: {control.name} was not measured twice in any round")
            continue
        line = f"control: {control.name} takes {shown_ratio(control.time)} its own time"
        if control.time.differs:
            line += ": something else disturbs the machine, and the answer below is doubtful"
        lines.append(line)
    lines.append(answer(found))
    lines += [sentence for one in found.arms if (sentence := _reservation(one, found))]
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
        lines.append(f"interrupted and resumed {counted(found.sessions - 1, 'time')}")
    if not found.is_precise:
        lines.append(f"ended before all intervals were within +-{percent(found.precision, 1.0)}")
    return lines


def speed_of(one: ArmResult) -> str:
    """Return an arm's rates with their units."""
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
    ratio = one.ratio
    assert ratio is not None
    if one.basis == "CPU time":
        return f"{one.name}: it takes {shown_ratio(ratio)} the CPU time of {one.baseline} ({speed_of(one)})"
    times = 1 / ratio.value
    speed = f"{times:.3g} times as fast" if times >= 1 else f"{ratio.value:.3g} times the time"
    return f"{one.name}: {speed} ({shown_ratio(ratio)} the time of {one.baseline}; {speed_of(one)})"


def _reservation(one: ArmResult, found: StudyResult) -> str:
    """Return why the wall times of an arm and its baseline are not compared; empty if they are."""
    if one.is_baseline or one.time is None or one.basis == "wall time":
        return ""
    if one.basis == "CPU time":
        return f"{one.name}: the machine was busy with other programs, so CPU times are compared instead of wall times"
    efficiencies = " and ".join(
        percent(other.efficiency, 1.0)
        for other in found.arms
        if other.name in (one.name, one.baseline) and other.efficiency is not None
    )
    return f"{one.name}: limited by the processors, as is {one.baseline} (CPU efficiency {efficiencies})"


def _most_frequent(errors: dict[str, int]) -> str:
    return max(errors, key=lambda one: errors[one]) if errors else "it failed"
