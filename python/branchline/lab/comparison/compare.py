"""Comparison of two subjects, each a command or files that are read, and its verdict in sentences.

Rounds run both subjects in random order, with the first one twice as its own control, until the ratio of their times is
precise enough.
"""

from __future__ import annotations

import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from branchline.base.limits import COMPARED_LOST_MAX, COMPARED_ROUNDS_MAX
from branchline.base.quantities import counted, duration, percent, size
from branchline.errors import BranchlineError, OptionError
from branchline.lab.comparison.command_samples import ArmRun, Subject
from branchline.lab.sampling.page_cache import cached_bytes, fuse_remark, make_cold
from branchline.lab.statistics import LEVEL, PAIRS_MIN, Ratio, paired_ratio

COMPARISON_VERSION = 1
#: The arms: two subjects, and the first again. Its ratio to itself shows what the machine alone does.
FIRST, SECOND, CONTROL = "A", "B", "A again"
ARMS = (FIRST, SECOND, CONTROL)
#: Less CPU time cannot be compared: the kernel counts it in ticks.
CPU_TELLING_S = 0.1
#: Smallest share of the difference for which a phase is named.
_PHASE_TELLING = 0.1
#: Least share of the bytes in the page cache for which files count as warm.
WARM_LEAST = 0.99


class FailedCommandError(BranchlineError):
    """A command that is compared fails."""


@dataclass(frozen=True)
class ComparisonPlan:
    """What is compared, and when that ends: when half of the interval is within ``precision``, a part of the ratio; or
    after ``budget_s`` seconds. It never ends because a difference was found: then one would be found too often.
    ``cold`` are files that are thrown out of the page cache before each sample of commands; readings have their own.
    A sample takes up to ``wait_s``.
    """

    first: Subject
    second: Subject
    precision: float = 0.02
    budget_s: float = 600.0
    wait_s: float = 3600.0
    seed: int = 0
    cold: tuple[str, ...] = ()

    def check(self) -> None:
        """Raises OptionError for what cannot be."""
        if not 0 < self.precision < 1:
            raise OptionError(f"a precision of {self.precision:g} is impossible", hint="0.02 are two per cent")
        if self.budget_s <= 0 or self.wait_s <= 0:
            raise OptionError("a comparison needs time")
        outputs = [one.output for one in (self.first, self.second) if one.output is not None]
        if len({one.resolve() for one in outputs}) < len(outputs):
            raise OptionError("both trains write to the same directory", hint="give each its own -o")


@dataclass(frozen=True)
class PhaseDifference:
    """The seconds that a phase takes more in the second subject: the median over all rounds."""

    phase: str
    seconds: float


@dataclass(frozen=True)
class Comparison:
    """What was found: how many times the time of the first subject the second one takes, and the first one itself.
    ``cpu`` is None where there was too little CPU time. ``lost`` counts rounds in which one failed. ``commands`` are
    their words. ``phases`` are those of both records of jobs; with ``is_from_outside`` what can be seen of any program.
    ``cold_remark`` says what is not known of the files that were made cold for commands.
    """

    commands: list[list[str]]
    seed: int
    samples: list[ArmRun]
    wall: Ratio
    control: Ratio
    cpu: Ratio | None = None
    phases: list[PhaseDifference] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    lost: int = 0
    is_precise: bool = False
    is_from_outside: bool = False
    cold_remark: str = ""
    comparison_version: int = COMPARISON_VERSION


def compare(plan: ComparisonPlan, say: Callable[[str], None] = lambda _: None) -> Comparison:
    """Compares two subjects. ``say`` is called after each round with how it stands.

    Raises OptionError for a plan that cannot be, and for a program that is not there; FailedCommandError when a command
    fails again and again, or in the first round, or a file cannot be made cold; StillCachedError for files that stay in
    the page cache.
    """
    plan.check()
    for one in (plan.first, plan.second):
        one.prepare(plan.wait_s)
    draw = random.Random(plan.seed)  # noqa: S311 - an order that can be drawn again
    rounds: list[dict[str, ArmRun]] = []
    lost = 0
    begin_s = time.monotonic()
    while len(rounds) < COMPARED_ROUNDS_MAX:
        found = _round(plan, len(rounds) + lost, draw)
        failed = [one for one in found.values() if one.code]
        if failed:
            lost += 1
            if not rounds or lost > COMPARED_LOST_MAX:
                raise _failure(plan, failed[0])
            say(f"round {len(rounds) + lost} is left out: {failed[0].arm} ended with code {failed[0].code}")
        else:
            _check_same_work(found)
            rounds.append(found)
            say(_standing(rounds))
        if len(rounds) >= PAIRS_MIN and _is_precise(rounds, plan.precision):
            break
        # A round that would end after the budget does not begin, but an interval needs some.
        spent_s = time.monotonic() - begin_s
        if spent_s + spent_s / (len(rounds) + lost) > plan.budget_s:
            break
    return _comparison(plan, rounds, lost)


def _round(plan: ComparisonPlan, number: int, draw: random.Random) -> dict[str, ArmRun]:
    """One sample of each arm, in a drawn order; none after one that failed."""
    order = draw.sample(ARMS, len(ARMS))
    found: dict[str, ArmRun] = {}
    for position, arm in enumerate(order):
        cached = _made_cold(plan.cold) if plan.cold else None
        subject = plan.second if arm == SECOND else plan.first
        sample = subject.taken(number, position, cached, plan.wait_s)
        found[arm] = replace(sample, arm=arm)
        if sample.code:
            break
    return found


def _made_cold(files: Sequence[str]) -> int:
    """What the page cache holds of files that were thrown out of it."""
    try:
        make_cold(list(files))
        return sum(map(cached_bytes, files))
    except OSError as error:
        raise FailedCommandError(f"it cannot be made cold: {error.strerror}", path=str(error.filename or "")) from None


def _check_same_work(found: Mapping[str, ArmRun]) -> None:
    """Raises FailedCommandError where both read different numbers of entries."""
    first, second = found[FIRST].events, found[SECOND].events
    if first is not None and second is not None and first != second:
        what = f"A has {counted(first, 'entry', 'entries')} and B {counted(second, 'entry', 'entries')}"
        raise FailedCommandError(what, hint="compare places that hold the same")


def _failure(plan: ComparisonPlan, sample: ArmRun) -> FailedCommandError:
    subject = plan.second if sample.arm == SECOND else plan.first
    said = f":\n{sample.said}" if sample.said else ""
    what = f"{' '.join(subject.whole)} ended with code {sample.code} after {sample.wall_s:.1f} s{said}"
    return FailedCommandError(what, hint="only what works can be compared")


def _ratio(rounds: Sequence[dict[str, ArmRun]], arm: str, *, is_cpu: bool = False) -> Ratio:
    def times(of: str) -> list[float]:
        return [one[of].cpu_s if is_cpu else one[of].wall_s for one in rounds]

    return paired_ratio(times(FIRST), times(arm), LEVEL)


def _is_precise(rounds: Sequence[dict[str, ArmRun]], precision: float) -> bool:
    width = _ratio(rounds, SECOND).half_width
    return width is not None and width <= precision


def _standing(rounds: Sequence[dict[str, ArmRun]]) -> str:
    found = _ratio(rounds, SECOND)
    interval = "" if found.low is None else f" ({found.low:.3f} to {found.high:.3f})"
    return f"{len(rounds)} rounds: B takes {found.value:.3f} times the time of A{interval}"


def _comparison(plan: ComparisonPlan, rounds: Sequence[dict[str, ArmRun]], lost: int) -> Comparison:
    cpu_s = [one[arm].cpu_s for one in rounds for arm in (FIRST, SECOND)]
    is_recorded = all(one[arm].phases for one in rounds for arm in (FIRST, SECOND))
    return Comparison(
        commands=[plan.first.whole, plan.second.whole],
        seed=plan.seed,
        samples=[sample for one in rounds for sample in one.values()],
        wall=_ratio(rounds, SECOND),
        control=_ratio(rounds, CONTROL),
        cpu=_ratio(rounds, SECOND, is_cpu=True) if min(cpu_s) >= CPU_TELLING_S else None,
        phases=_phases(rounds, (lambda one: one.phases) if is_recorded else seen_from_outside),
        seconds=[statistics.median(one[arm].wall_s for one in rounds) for arm in (FIRST, SECOND)],
        lost=lost,
        is_precise=len(rounds) >= PAIRS_MIN and _is_precise(rounds, plan.precision),
        is_from_outside=not is_recorded,
        cold_remark=fuse_remark(plan.cold),
    )


def seen_from_outside(sample: ArmRun) -> dict[str, float]:
    """The phases of any program: on a core, and not. With several threads both are for one core. What it waits for,
    storage, network or others, cannot be seen from outside.
    """
    on_core_s = min(sample.cpu_s, sample.wall_s)
    return {"CPU": on_core_s, "waiting": sample.wall_s - on_core_s}


def _phases(
    rounds: Sequence[dict[str, ArmRun]], phases: Callable[[ArmRun], Mapping[str, float]]
) -> list[PhaseDifference]:
    """The difference in each phase, the largest first."""
    pairs = [(phases(one[FIRST]), phases(one[SECOND])) for one in rounds]
    names = sorted({name for pair in pairs for one in pair for name in one})
    found = [
        PhaseDifference(name, statistics.median(other.get(name, 0.0) - one.get(name, 0.0) for one, other in pairs))
        for name in names
    ]
    return sorted(found, key=lambda one: -abs(one.seconds))


def local_files(path: str) -> list[str]:
    """The files of a path: itself, or all below a folder. Raises OptionError where there are none."""
    place = Path(path)
    found = [str(place)] if place.is_file() else sorted(str(one) for one in place.rglob("*") if one.is_file())
    if not found:
        raise OptionError(f"there is no file at {path!r:.200} that could be made cold")
    return found


# --- the verdict ------------------------------------------------------------------------------------------------------


def verdict(found: Comparison) -> list[str]:
    """The control first, then the answer with the phases in which the difference lies, then how it was measured."""
    lines = [_control(found), "; ".join([_answer(found), *_phase_sentences(found)])]
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
    cached = [one.cached_bytes for one in known]
    whole, least, most = known[0].local_bytes, min(cached), max(cached)
    state = "cold" if not most else "warm" if least >= WARM_LEAST * whole else "neither cold nor warm"
    held = size(most) if least == most else f"{size(least)} to {size(most)}"
    line = f"{arm} was {state}: before each run {held} of {size(whole)} were in the page cache, as mincore(2) says"
    return f"{line}; {remark}" if remark else line


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


def _phase_sentences(found: Comparison) -> list[str]:
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
