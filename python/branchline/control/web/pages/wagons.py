"""Pages of wagons and datasets: the grid, single entries, changes, and trials with their profiles."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field, replace

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from branchline.control.registry.entries import DatasetEntry, WagonEntry
from branchline.control.registry.registry import Grid, WholeWagon
from branchline.control.registry.revisions import DATASET, PLAN, WAGON, Change, FieldChange
from branchline.control.room import ControlRoom
from branchline.control.room_errors import NoSuchEntryError
from branchline.control.trials.profiles import hot_lines, is_whole, speedscope
from branchline.control.trials.trial import TRAIN, TrialOutcome, TrialWarning, WagonTrial, reasons, warnings
from branchline.control.trials.trials import Trial
from branchline.control.web.pages.page import Ask, Page
from branchline.errors import WagonError

#: Kinds of entries whose versions can be compared.
KEPT = (WAGON, DATASET, PLAN)
#: Maximum number of latest changes from which users can choose two versions to compare.
MOMENTS_MAX = 200


@dataclass(frozen=True)
class GridCell:
    """A wagon on a dataset: whether it is enabled, its last trial, and whether the user may change the wagon."""

    wagon: str
    dataset: str
    is_enabled: bool = False
    trial: int = 0
    state: str = ""
    may_change: bool = False


@dataclass(frozen=True)
class GridShown:
    """The table of wagons and datasets. ``cells`` has a list for each wagon, in the order of ``datasets``."""

    wagons: list[WagonEntry]
    datasets: list[DatasetEntry]
    cells: list[list[GridCell]]
    groups: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class WagonShown:
    """A wagon with its source, its latest changes, and a grid cell for each dataset."""

    wagon: WholeWagon
    text: str
    changes: list[Change]
    cells: list[GridCell] = field(default_factory=list)


@dataclass(frozen=True)
class DatasetShown:
    """A dataset with its latest changes and a grid cell for each wagon.

    ``in_train`` is the last trial of a train with all wagons that passed on the dataset.
    """

    dataset: DatasetEntry
    revision: int
    changes: list[Change]
    cells: list[GridCell] = field(default_factory=list)
    in_train: Trial | None = None


@dataclass(frozen=True)
class TrialShown:
    """A trial with its warnings and the reasons for its failure.

    ``in_train`` is the last trial of a train with all wagons that passed on the same dataset.
    """

    trial: Trial
    warnings: list[TrialWarning]
    reasons: list[str]
    in_train: Trial | None = None


@dataclass(frozen=True)
class ChangesShown:
    """The latest changes, newest first."""

    changes: list[Change]


@dataclass(frozen=True)
class MomentsShown:
    """The differences between two versions of a wagon, a dataset or a plan.

    ``first`` and ``second`` are the numbers of the changes that created these versions.
    """

    subject: str
    address: str
    changes: list[Change]
    first: int
    second: int
    fields: list[FieldChange]


@dataclass(frozen=True)
class Compared:
    """The differences between two wagons."""

    first: str
    second: str
    fields: list[FieldChange]


def grid(ask: Ask) -> Page:
    """The grid: the table of wagons and datasets."""
    found = ask.room.registry.grid(ask.text("group"))
    cells = _cells(ask, found)
    groups = sorted({one.group for one in ask.room.registry.wagons() if one.group})
    shown = GridShown(found.wagons, found.datasets, cells, groups)
    return Page("grid.html", "Wagons and datasets", shown, {"group": ask.text("group")})


def _cells(ask: Ask, found: Grid) -> list[list[GridCell]]:
    """Return a list of grid cells for each wagon, with one cell per dataset."""
    pairs = {(wagon.address, dataset.address) for wagon in found.wagons for dataset in found.datasets}
    trials = ask.room.trials.states(found.enabled & pairs)

    def cell(wagon: WagonEntry, dataset: DatasetEntry) -> GridCell:
        pair = (wagon.address, dataset.address)
        trial, may_change = trials.get(pair), ask.person.owns(wagon.owner)
        number, state = (trial.number, trial.state) if trial else (0, "")
        return GridCell(*pair, pair in found.enabled, number, state, may_change)

    return [[cell(wagon, one) for one in found.datasets] for wagon in found.wagons]


def wagon(ask: Ask) -> Page:
    """One wagon, with the form to change it."""
    address = f"{ask.path('owner')}/{ask.path('name')}"
    try:
        found = ask.room.registry.wagon(address)
    except NoSuchEntryError as error:
        raise HTTPException(404, str(error)) from None
    text = ask.room.sources.text(found.source_sha256)
    whole = ask.room.registry.grid()
    [cells] = _cells(ask, replace(whole, wagons=[found.entry]))
    shown = WagonShown(found, text, ask.room.registry.changes("wagon", address, count=20), cells)
    return Page("wagon.html", f"Wagon {address}", shown, {"may_change": ask.person.owns(found.entry.owner)})


def new_wagon(ask: Ask) -> Page:
    """The form for a new wagon."""
    extra: dict[str, object] = {"variants": ask.room.registry.wagons(), "git_refused": ask.room.git.refused}
    return Page("new_wagon.html", "New wagon", ask.person, extra)


def dataset(ask: Ask) -> Page:
    """One dataset, with the form to change it."""
    address = f"{ask.path('owner')}/{ask.path('name')}"
    try:
        found, revision = ask.room.registry.dataset(address)
    except NoSuchEntryError as error:
        raise HTTPException(404, str(error)) from None
    cells = [one for [one] in _cells(ask, replace(ask.room.registry.grid(), datasets=[found]))]
    last_changes = ask.room.registry.changes("dataset", address, count=20)
    shown = DatasetShown(found, revision, last_changes, cells, _in_train(ask, address))
    extra: dict[str, object] = {"may_change": ask.person.owns(found.owner), "others": ask.room.registry.datasets()}
    return Page("dataset.html", f"Dataset {address}", shown, extra)


def new_dataset(ask: Ask) -> Page:
    """The form for a new dataset."""
    return Page("new_dataset.html", "New dataset", ask.person)


def trial(ask: Ask) -> Page:
    """One trial of a wagon on a dataset, or of a train."""
    try:
        found = ask.room.trials.trial(ask.path_number("number"))
    except NoSuchEntryError as error:
        raise HTTPException(404, str(error)) from None
    outcome = found.outcome
    is_train = found.wagon == TRAIN
    shown = TrialShown(
        found,
        warnings(outcome) if outcome else [],
        reasons(outcome) if outcome else [],
        None if is_train else _in_train(ask, found.dataset),
    )
    hot = {one.name: hot_lines(one.profile) for one in _profiled_wagons(outcome) if one.profile}
    what = "a train of all that passed" if is_train else found.wagon
    # The wagon or the dataset was removed, so the trial cannot be repeated.
    may_try = False
    with suppress(NoSuchEntryError):
        may_try = ask.room.trials.may_try(ask.person, found.wagon, found.dataset)
    return Page("trial.html", f"Trial of {what} on {found.dataset}", shown, {"hot": hot, "may_try": may_try})


def _in_train(ask: Ask, dataset: str) -> Trial | None:
    """Return the last trial of a train with all wagons that passed on a dataset."""
    return ask.room.trials.last([(TRAIN, dataset)]).get((TRAIN, dataset))


def changes(ask: Ask) -> Page:
    """The change log."""
    found = ask.room.registry.changes(ask.text("subject"), ask.text("address"), before=ask.number("before"))
    return Page("changes.html", "Changes", ChangesShown(found), {"subject": ask.text("subject")})


def moments(ask: Ask) -> Page:
    """The differences between two versions of an entry, by default the versions before and after the last change."""
    subject, address = ask.text("subject"), ask.text("address")
    found = ask.room.registry.changes(subject, address, count=MOMENTS_MAX) if subject in KEPT and address else []
    if not found:
        raise HTTPException(404, f"the {subject or 'entry'} {address!r:.160} has no changes")
    numbers = {one.number: one for one in found}
    second = ask.number("second") or found[0].number
    first = ask.number("first") or found[min(1, len(found) - 1)].number
    if first not in numbers or second not in numbers:
        raise HTTPException(404, f"{address} has no such change among its last {MOMENTS_MAX}")
    fields = ask.room.registry.compare_moments(subject, address, numbers[first].at, numbers[second].at)
    shown = MomentsShown(subject, address, found, first, second, fields)
    return Page("moments.html", f"{address} at two moments", shown)


def compare(ask: Ask) -> Page:
    """The comparison of two wagons."""
    first, second = ask.text("first"), ask.text("second")
    fields: list[FieldChange] = []
    if first and second:
        try:
            fields = ask.room.registry.compare(first, second)
        except (NoSuchEntryError, WagonError) as error:
            raise HTTPException(404, str(error)) from None
    wagons = [one.address for one in ask.room.registry.wagons()]
    return Page("compare.html", "Two wagons side by side", Compared(first, second, fields), {"wagons": wagons})


async def trial_profile(request: Request) -> Response:
    """Return the profiles of a trial's wagons in the speedscope format."""
    ask = Ask(request)
    content = await run_in_threadpool(_speedscope, ask.room, ask.path_number("number"))
    name = f'attachment; filename="trial-{ask.path("number")}.speedscope.json"'
    return Response(content, media_type="application/json", headers={"Content-Disposition": name})


def _speedscope(room: ControlRoom, number: int) -> bytes:
    trial = room.trials.trial(number)
    wagons = _profiled_wagons(trial.outcome)
    if not wagons:
        raise HTTPException(404, "this trial has no profile")
    return json.dumps(speedscope(f"{trial.wagon} on {trial.dataset}", wagons)).encode()


def _profiled_wagons(outcome: TrialOutcome | None) -> list[WagonTrial]:
    """Return the wagons in a trial's outcome that have a consistent profile."""
    return [one for one in (outcome.wagons if outcome else []) if one.profile and is_whole(one.profile)]
