"""Compares each wagon's result in the train with its result alone, and finds out which wagon changed it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from branchline.records.sensors.record import WagonFault
from branchline.trains.testing.wagon_trial import TrialRun
from branchline.trains.wagons.wagons import Wagon, with_required

# Runs wagons together on the sample, in their order, in a process of their own.
RunTogether = Callable[[tuple[Wagon, ...]], TrialRun]


@dataclass(frozen=True)
class Difference:
    """A wagon whose result in the train is not, bit by bit, the one that it has alone on the same events.

    ``changed_by`` are the wagons that make the difference when they run with it; it is empty where none does so alone,
    or where the wagon's result differs each time that it runs (``is_repeatable`` is False). ``error`` is why the wagon
    stops in the train, if that is the difference.
    """

    wagon: str
    changed_by: tuple[str, ...]
    is_repeatable: bool = True
    error: WagonFault | None = None

    def sentence(self) -> str:
        """The difference in a sentence."""
        if not self.is_repeatable:
            return f"wagon {self.wagon} gives another result each time it runs: does it use random numbers or the time?"
        what = f"wagon {self.wagon} gives another result in the train than alone"
        if self.error is not None:
            what = f"wagon {self.wagon} runs alone and stops in the train ({self.error.type}: {self.error.message})"
        if not self.changed_by:
            return f"{what}; no single other wagon is the reason"
        names = " and ".join(self.changed_by)
        return (
            f"{what}: {names} changes what it uses. Look there for changes in place of arrays, global variables or "
            "class attributes"
        )


def differences(wagons: Sequence[Wagon], alone: Mapping[str, TrialRun], run: RunTogether) -> list[Difference]:
    """What differs between the train and its wagons alone, in the order of the train.

    ``alone`` are the trials of each wagon by itself; wagons that failed there are left out of the train.
    """
    running = tuple(one for one in wagons if alone[one.name].error is None)
    if len(running) < 2:
        return []
    together = run(running)
    suspects: list[str] = []
    found = []
    for wagon in running:
        if together.digests.get(wagon.name) == alone[wagon.name].digests.get(wagon.name):
            continue
        difference = _explained(wagon, running, alone[wagon.name], together, suspects, run)
        suspects += [name for name in difference.changed_by if name not in suspects]
        found.append(difference)
    return found


def _explained(
    wagon: Wagon,
    running: tuple[Wagon, ...],
    alone: TrialRun,
    together: TrialRun,
    suspects: Sequence[str],
    run: RunTogether,
) -> Difference:
    """Runs the wagon again alone, and then with one other wagon at a time until one makes the difference."""
    by_name = {one.name: one for one in running}
    expected = alone.digests.get(wagon.name)
    own = with_required(wagon, by_name)
    if run(own).digests.get(wagon.name) != expected:
        return Difference(wagon.name, (), is_repeatable=False)
    error = together.errors.get(wagon.name)
    others = [one for one in running if one not in own]
    # Who changed one wagon's result is tried first with the next.
    for other in sorted(others, key=lambda one: one.name not in suspects):
        wanted = {one.name for one in (*own, *with_required(other, by_name))}
        pair = tuple(one for one in running if one.name in wanted)
        if run(pair).digests.get(wagon.name) != expected:
            return Difference(wagon.name, (other.name,), error=error)
    return Difference(wagon.name, (), error=error)
