"""Trains: the list, one train, and the form for a new one."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field

from starlette.exceptions import HTTPException

from branchline.control.room_errors import NoSuchEntryError
from branchline.control.trains.results import files_of
from branchline.control.trains.train import Train, TrainOrder
from branchline.control.trials.trial import DONE, WARNED
from branchline.control.web.pages.page import Ask, Page
from branchline.control.web.pages.train_files import PICTURE_TYPES
from branchline.records.report.sites import site_table
from branchline.records.sensors.record import FailureGroup, JobRecord
from branchline.records.sensors.status import TrainStatus
from branchline.trains.out_folder.state import job_of

ROWS = 50


@dataclass(frozen=True)
class TrainsListed:
    """Some of the trains, ``total`` in all."""

    trains: list[Train]
    total: int
    first: int = 0


@dataclass(frozen=True)
class TrainShown:
    """A train: its state, how its run stands, the files of its results, and failures by cause. ``job`` is the address
    of the job that reported it, empty if none did.
    """

    train: Train
    status: TrainStatus | None = None
    record: JobRecord | None = None
    files: list[str] = field(default_factory=list)
    failures: list[FailureGroup] = field(default_factory=list)
    job: str = ""
    command: str = ""
    log: str = ""


@dataclass(frozen=True)
class Candidate:
    """A wagon that is enabled on a dataset, and whether it may ride: how its trial ended."""

    wagon: str
    state: str = ""
    trial: int = 0
    may_ride: bool = False
    seconds: float = 0.0
    memory_bytes: int = 0


@dataclass(frozen=True)
class NewTrain:
    """Datasets to choose from, and the wagons that are enabled on the chosen one. ``like`` is an order to begin with:
    that of an earlier train.
    """

    datasets: list[str]
    dataset: str = ""
    wagons: list[Candidate] = field(default_factory=list)
    like: TrainOrder | None = None


def trains(ask: Ask) -> Page:
    """The list of trains, the newest first."""
    first = ask.number("first")
    found, total = ask.room.trains.trains(first, ROWS)
    return Page("trains.html", "Trains", TrainsListed(found, total, first))


def train(ask: Ask) -> Page:
    """One train, followed live, with its results."""
    number = ask.path_number("number")
    found = _train(ask, number)
    results = ask.room.trains.results(found)
    record = job_of(results)
    names = files_of(record)
    shown = TrainShown(
        found,
        ask.room.trains.status(found),
        record,
        names,
        record.failures if record is not None else [],
        ask.room.trains.job(found),
        shlex.join(found.command),
        "" if found.is_over and not found.why else ask.room.trains.log(found),
    )
    pictures = [one for one in names if one.rpartition(".")[2] in PICTURE_TYPES]
    extra = {
        "pictures": pictures,
        "may_change": ask.person.owns(found.order.owner),
        "person": ask.person,
        "sites": None if record is None else site_table(record),
    }
    return Page("train.html", f"Train {number}: {found.order.name}", shown, extra)


def _train(ask: Ask, number: int) -> Train:
    try:
        return ask.room.trains.train(number)
    except NoSuchEntryError as error:
        raise HTTPException(404, str(error)) from None


def new_train(ask: Ask) -> Page:
    """The form for a new train over a dataset; with a ``like`` it is filled in as an earlier train."""
    datasets = [one.address for one in ask.room.registry.datasets()]
    like = _train(ask, ask.number("like")).order if ask.number("like") else None
    dataset = ask.text("dataset") or (like.dataset if like else datasets[0] if len(datasets) == 1 else "")
    if dataset and dataset not in datasets:
        raise HTTPException(404, f"there is no dataset {dataset!r:.160}")
    pairs = sorted(one for one in ask.room.registry.grid().enabled if one[1] == dataset)
    trials = ask.room.trials.last(pairs)
    candidates = []
    for pair in pairs:
        trial = trials.get(pair)
        if trial is None:
            candidates.append(Candidate(pair[0]))
            continue
        outcome = trial.outcome
        is_of_now = trial.key == ask.room.trials.key_of(*pair)
        candidates.append(
            Candidate(
                pair[0],
                trial.state,
                trial.number,
                trial.state in (DONE, WARNED) and is_of_now,
                outcome.seconds if outcome else 0.0,
                outcome.memory_bytes if outcome else 0,
            )
        )
    shown = NewTrain(datasets, dataset, candidates, like)
    return Page("new_train.html", "New train", shown, {"like_number": ask.number("like")})
