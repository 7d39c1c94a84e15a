"""What a comparison says, in sentences."""

from __future__ import annotations

from collections import Counter

from branchline.base.quantities import counted, duration, percent, size
from branchline.lab.comparison.compare import FIRST, SECOND, Comparison
from branchline.lab.estimates import PAIRS_MIN, Ratio

#: What is less of the difference is not named.
_PHASE_TELLING = 0.1
#: Files of which less is in the page cache are not warm.
WARM_LEAST = 0.99


def verdict(found: Comparison) -> list[str]:
    """The control first, then the answer with the phases in which the difference lies, then how it was measured."""
    lines = [_control(found), "; ".join([_answer(found), *_phases(found)])]
    if found.cpu is not None:
        lines.append(f"CPU time: B takes {shown_ratio(found.cpu)} that of A")
    lines += _temperatures(found)
    if found.lost:
        lines.append(f"{counted(found.lost, 'round')} left out, since one of them failed in it")
    notes = Counter(note for one in found.samples for note in one.notes)
    lines += [f"in {times} of {counted(len(found.samples), 'run')} {note}" for note, times in notes.items()]
    return lines


def _temperatures(found: Comparison) -> list[str]:
    """What the page cache held before the runs."""
    if any(one.temperature is not None for one in found.samples):
        return [_temperature(arm, found) for arm in (FIRST, SECOND)]
    held = [one.cached_bytes for one in found.samples if one.cached_bytes is not None]
    if held:
        line = f"cold: before each run {size(max(held))} of the files were in the page cache, as mincore(2) says"
        return ["; ".join(filter(None, [line, found.cold_remark]))]
    return ["nothing was made cold: each run found in the page cache what those before it left there"]


def _temperature(arm: str, found: Comparison) -> str:
    known = [one.temperature for one in found.samples if one.arm == arm and one.temperature is not None]
    remark = next((one.remark for one in known if one.remark), "")
    if not any(one.local_bytes for one in known):
        return f"{arm}: {remark}"
    whole, least, most = known[0].local_bytes, *_extremes([one.cached_bytes for one in known])
    state = "cold" if not most else "warm" if least >= WARM_LEAST * whole else "neither cold nor warm"
    held = size(most) if least == most else f"{size(least)} to {size(most)}"
    line = f"{arm} was {state}: before each run {held} of {size(whole)} were in the page cache, as mincore(2) says"
    return f"{line}; {remark}" if remark else line


def _extremes(values: list[int]) -> tuple[int, int]:
    return min(values), max(values)


def _control(found: Comparison) -> str:
    line = f"control: A takes {shown_ratio(found.control)} its own time"
    if found.control.differs:
        return f"{line}: something else disturbs the machine, and the answer below is doubtful"
    return line


def _answer(found: Comparison) -> str:
    wall = found.wall
    first, second = (duration(one) for one in found.seconds)
    medians = f"medians {first} and {second}"
    if wall.low is None or wall.high is None:
        few = f"{counted(wall.pairs, 'pair')} say nothing on how sure that is: {PAIRS_MIN} are needed"
        return f"B takes {wall.value:.3g} times the time of A ({medians}); {few}"
    if not wall.differs:
        most = max(wall.high - 1.0, 1.0 - wall.low)
        return (
            f"no difference: B takes {shown_ratio(wall)} the time of A ({medians});"
            f" one of more than {percent(most, 1.0)} is ruled out"
        )
    if wall.value < 1.0:
        return (
            f"B is faster: it takes {shown_ratio(wall)} the time of A ({medians}), {1 / wall.value:.3g} times as fast"
        )
    return f"A is faster: B takes {shown_ratio(wall)} the time of A ({medians})"


def shown_ratio(ratio: Ratio) -> str:
    """A ratio with its interval."""
    if ratio.low is None or ratio.high is None or ratio.level is None:
        return f"{ratio.value:.3f} times"
    pairs = counted(ratio.pairs, "pair")
    return f"{ratio.value:.3f} times ({ratio.low:.3f} to {ratio.high:.3f}, {percent(ratio.level, 1.0)}, {pairs})"


def _phases(found: Comparison) -> list[str]:
    """The phases in which most of the difference lies."""
    if not found.phases or not found.wall.differs:
        return []
    whole_s = sum(abs(one.seconds) for one in found.phases)
    told = [one for one in found.phases if abs(one.seconds) > _PHASE_TELLING * whole_s]
    words = [f"{one.phase} ({'+' if one.seconds > 0 else '-'}{duration(abs(one.seconds))})" for one in told]
    if not words:
        return []
    if not found.is_from_outside:
        return [f"the difference lies in {', '.join(words)}: seconds of B beside A"]
    return [f"seen from outside, the difference lies in {', '.join(words)}: seconds of B beside A"]
