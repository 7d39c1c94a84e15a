"""What a comparison says, in sentences."""

from __future__ import annotations

from branchline.lab.comparing import Comparison
from branchline.lab.estimates import PAIRS_MIN, Ratio
from branchline.quantities import counted, duration, percent

#: What is less of the difference is not named.
_PHASE_TELLING = 0.1


def verdict(found: Comparison) -> list[str]:
    """The control first, then the answer, and where the difference lies."""
    lines = [_control(found), _answer(found)]
    if found.cpu is not None:
        lines.append(f"CPU time: B takes {shown_ratio(found.cpu)} that of A")
    lines += _phases(found)
    if found.lost:
        lines.append(f"{counted(found.lost, 'round')} left out, since a command failed in it")
    return lines


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
    return [f"the difference lies in {', '.join(words)}: seconds of B beside A"] if words else []
