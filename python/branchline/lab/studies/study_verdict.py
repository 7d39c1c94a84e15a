"""What a study says, in sentences: the control first, then the answer, then what is to be known about it."""

from __future__ import annotations

from collections import Counter

from branchline.base.quantities import count, counted, percent, rate, significant
from branchline.lab.comparison.verdict import shown_ratio
from branchline.lab.estimates import PAIRS_MIN, Ratio
from branchline.lab.studies.study_result import ArmResult, ControlResult, StudyResult


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
    lines = [_control(one.name, one.time) for one in found.controls]
    lines.append(answer(found))
    lines += [
        f"{one.name}: left out {counted(one.lost, 'time')}: {_most(one.errors)}" for one in found.arms if one.lost
    ]
    lines += [
        f"{one.name}: its control was left out {counted(one.lost, 'time')}: {_most(one.errors)}"
        for one in found.controls
        if one.lost
    ]
    lines += [
        f"{one.name}: {counted(one.failed_jobs, 'job')} failed: {_most(one.errors)}"
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


def _control(name: str, time: Ratio | None) -> str:
    if time is None:
        return f"control: {name} was not measured twice in any round"
    line = f"control: {name} takes {shown_ratio(time)} its own time"
    if time.differs:
        return f"{line}: something else disturbs the machine, and the answer below is doubtful"
    return line


def _most(errors: dict[str, int]) -> str:
    return max(errors, key=lambda one: errors[one]) if errors else "it failed"
