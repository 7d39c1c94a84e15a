"""Compare two subjects, each a command or the reading of files, and state the verdict in sentences.

Each round runs both subjects in random order, and the first subject a second time as a control, until the ratio of
their times is precise enough.
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
from branchline.lab.comparison.command_samples import ArmRun, ComparedSubject
from branchline.lab.sampling.machine import was_busy
from branchline.lab.sampling.page_cache import cached_bytes, fuse_remark, make_cold
from branchline.lab.statistics import LEVEL, PAIRS_MIN, Ratio, paired_ratio

COMPARISON_VERSION = 1
#: Names of the arms: the two subjects, and the first subject again, which shows the noise of the machine.
FIRST, SECOND, CONTROL = "A", "B", "A again"
ARMS = (FIRST, SECOND, CONTROL)
#: Minimum CPU time of a run for CPU times to be compared, since the kernel counts CPU time in ticks.
CPU_TELLING_S = 0.1
#: Minimum share of the difference between the subjects for which a phase is mentioned.
_PHASE_TELLING = 0.1
#: Minimum fraction of a file's bytes in the page cache for the file to count as warm.
WARM_LEAST = 0.99


class FailedCommandError(BranchlineError):
    """A compared command failed."""


@dataclass(frozen=True)
class ComparisonPlan:
    """The two subjects of a comparison, and when it stops.

    The comparison stops when the half width of the interval, relative to the ratio, is below ``precision``, or after
    ``budget_s`` seconds. It does not stop because a difference was found, which would increase the rate of false
    differences. The files in ``cold`` are evicted from the page cache before each run of a command; readings have their
    own setting instead. ``wait_s`` is the timeout of a run.
    """

    first: ComparedSubject
    second: ComparedSubject
    precision: float = 0.02
    budget_s: float = 600.0
    wait_s: float = 3600.0
    seed: int = 0
    cold: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise OptionError for invalid settings."""
        if not 0 < self.precision < 1:
            raise OptionError(f"invalid precision: {self.precision:g}", hint="give a fraction such as 0.02 (2 %)")
        if self.budget_s <= 0 or self.wait_s <= 0:
            raise OptionError("budget and wait of a comparison must be positive")
        outputs = [one.output for one in (self.first, self.second) if one.output is not None]
        if len({one.resolve() for one in outputs}) < len(outputs):
            raise OptionError("both trains write to the same directory", hint="give each its own -o")


@dataclass(frozen=True)
class PhaseDifference:
    """The additional time in seconds that the second subject spends in a phase: the median over all rounds."""

    phase: str
    seconds: float


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison.

    ``wall`` is the ratio of the second subject's time to the first subject's, ``control`` the ratio of the repeated
    first subject's time. ``cpu`` is the ratio of CPU times, None if they are too short. With ``is_busy``, the
    machine was busy with other programs, so the wall times must not be compared. ``seconds`` are the median times
    of both subjects. ``lost`` is the number of failed rounds. ``commands`` are the words of both subjects.
    ``phases`` come from the records of jobs, or, with ``is_from_outside``, from measurements that are possible for
    any program. ``cold_remark`` says what is unknown about the evicted files.
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
    is_busy: bool = False
    comparison_version: int = COMPARISON_VERSION


def compare(plan: ComparisonPlan, say: Callable[[str], None] = lambda _: None) -> Comparison:
    """Compare two subjects. ``say`` is called with the current result after each round.

    Raises OptionError for an invalid plan or a program that does not exist, and FailedCommandError if a command fails
    in the first round or repeatedly, or if a file cannot be accessed to evict it from the page cache. Raises
    StillCachedError if a file remains in the page cache.
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
        # Do not start a round that would probably exceed the budget.
        spent_s = time.monotonic() - begin_s
        if spent_s + spent_s / (len(rounds) + lost) > plan.budget_s:
            break
    return _comparison(plan, rounds, lost)


def _round(plan: ComparisonPlan, number: int, draw: random.Random) -> dict[str, ArmRun]:
    """Run one sample of each arm in random order, and stop after a failed one."""
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
    """Evict files from the page cache; return the number of bytes that are still cached."""
    try:
        make_cold(list(files))
        return sum(map(cached_bytes, files))
    except OSError as error:
        raise FailedCommandError(f"cannot be made cold: {error.strerror}", path=str(error.filename or "")) from None


def _check_same_work(found: Mapping[str, ArmRun]) -> None:
    """Raise FailedCommandError if the subjects read different numbers of entries."""
    first, second = found[FIRST].events, found[SECOND].events
    if first is not None and second is not None and first != second:
        what = f"different data: A has {counted(first, 'entry', 'entries')} and B {counted(second, 'entry', 'entries')}"
        raise FailedCommandError(what, hint="compare places with the same content")


def _failure(plan: ComparisonPlan, sample: ArmRun) -> FailedCommandError:
    subject = plan.second if sample.arm == SECOND else plan.first
    said = f":\n{sample.said}" if sample.said else ""
    what = f"{' '.join(subject.whole)} ended with code {sample.code} after {sample.wall_s:.1f} s{said}"
    return FailedCommandError(what, hint="make sure that both commands succeed")


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
        is_busy=was_busy([(sample.wall_s, sample.surroundings) for one in rounds for sample in one.values()]),
    )


def seen_from_outside(sample: ArmRun) -> dict[str, float]:
    """Return how long a program ran on a core and how long it waited, which can be measured for any program. Several
    threads are treated as one core. The reason for waiting (storage, network or other) is unknown.
    """
    on_core_s = min(sample.cpu_s, sample.wall_s)
    return {"CPU": on_core_s, "waiting": sample.wall_s - on_core_s}


def _phases(
    rounds: Sequence[dict[str, ArmRun]], phases: Callable[[ArmRun], Mapping[str, float]]
) -> list[PhaseDifference]:
    """Return the difference in each phase, largest difference first."""
    pairs = [(phases(one[FIRST]), phases(one[SECOND])) for one in rounds]
    names = sorted({name for pair in pairs for one in pair for name in one})
    found = [
        PhaseDifference(name, statistics.median(other.get(name, 0.0) - one.get(name, 0.0) for one, other in pairs))
        for name in names
    ]
    return sorted(found, key=lambda one: -abs(one.seconds))


def local_files(path: str) -> list[str]:
    """Return the file at a path, or all files below a folder. Raises OptionError if no file is found."""
    place = Path(path)
    found = [str(place)] if place.is_file() else sorted(str(one) for one in place.rglob("*") if one.is_file())
    if not found:
        raise OptionError(f"no file to be made cold at {path!r:.200}")
    return found


# --- the verdict ------------------------------------------------------------------------------------------------------


def verdict(found: Comparison) -> list[str]:
    """Return the verdict in sentences: the control, the answer with the phases that explain the difference, and the
    conditions of the measurement.
    """
    control = f"control: A takes {shown_ratio(found.control)} its own time"
    if found.control.differs:
        control += ": something else disturbs the machine, and the answer below is doubtful"
    lines = [control, "; ".join([_answer(found), *_phase_sentences(found)])]
    if found.cpu is not None and not found.is_busy:
        lines.append(f"CPU time: B takes {shown_ratio(found.cpu)} that of A")
    lines += _temperatures(found)
    if found.lost:
        lines.append(f"{counted(found.lost, 'round')} left out, since one of them failed in it")
    notes = Counter(note for one in found.samples for note in one.surroundings.notes)
    lines += [f"in {times} of {counted(len(found.samples), 'run')} {note}" for note, times in notes.items()]
    return lines


def _temperatures(found: Comparison) -> list[str]:
    """Return sentences about the state of the page cache before the runs."""
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


def _answer(found: Comparison) -> str:
    if found.is_busy:
        busy = "the machine was busy with other programs, so wall times are not compared"
        return busy if found.cpu is None else f"{busy}; B takes {shown_ratio(found.cpu)} the CPU time of A"
    wall = found.wall
    first, second = (duration(one) for one in found.seconds)
    medians = f"medians {first} and {second}"
    if wall.low is None or wall.high is None:
        needed_s = PAIRS_MIN * sum(one.wall_s for one in found.samples) / wall.pairs
        few = f"{counted(wall.pairs, 'pair')} are too few for an interval, which needs {PAIRS_MIN}"
        few += f": give it more than {duration(needed_s)}"
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
    """Return a ratio with its interval as text."""
    if ratio.low is None or ratio.high is None or ratio.level is None:
        return f"{ratio.value:.3f} times"
    pairs = counted(ratio.pairs, "pair")
    return f"{ratio.value:.3f} times ({ratio.low:.3f} to {ratio.high:.3f}, {percent(ratio.level, 1.0)}, {pairs})"


def _phase_sentences(found: Comparison) -> list[str]:
    """Return a sentence about the phases that explain most of the difference, in a list; empty without a difference."""
    if not found.phases or not found.wall.differs or found.is_busy:
        return []
    whole_s = sum(abs(one.seconds) for one in found.phases)
    told = [one for one in found.phases if abs(one.seconds) > _PHASE_TELLING * whole_s]
    words = [f"{one.phase} ({'+' if one.seconds > 0 else '-'}{duration(abs(one.seconds))})" for one in told]
    if not words:
        return []
    if not found.is_from_outside:
        return [f"the difference lies in {', '.join(words)}: seconds of B beside A"]
    return [f"seen from outside, the difference lies in {', '.join(words)}: seconds of B beside A"]
