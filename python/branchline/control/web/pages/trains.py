"""Pages of trains: the list, one train, the form for a new train, comparisons of runs, and result files."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from branchline.base.limits import COMPARED_PICTURES_MAX
from branchline.control.room import ControlRoom
from branchline.control.room_errors import NoSuchEntryError
from branchline.control.trains.bundle import bundle
from branchline.control.trains.results import files_of, result_file
from branchline.control.trains.run_comparison import SAME, RunsCompared, compare_runs
from branchline.control.trains.train import Train, TrainOrder
from branchline.control.trials.trial import DONE, WARNED
from branchline.control.web.pages.page import Ask, Page
from branchline.control.web.pictures import bins_picture
from branchline.records.report.activity import site_table
from branchline.records.report.charts import charts_over_time, job_site_chart
from branchline.records.sensors.record import FailureGroup, JobRecord
from branchline.records.sensors.status import TrainStatus
from branchline.trains.out_folder.state import job_of

ROWS = 50
#: Suffixes of the result files that browsers may show, with their media types. Browsers must download other files.
PICTURE_TYPES = {"svg": "image/svg+xml", "png": "image/png"}
_SHOWN = {**PICTURE_TYPES, "html": "text/html; charset=utf-8", "json": "application/json", "txt": "text/plain"}
#: Content security policy for result files, which user code wrote: no scripts, cookies or external content.
STRANGER_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True)
class TrainsListed:
    """A page of the list of trains. ``total`` is the total number of trains."""

    trains: list[Train]
    total: int
    first: int = 0


@dataclass(frozen=True)
class TrainShown:
    """A train, with the status and the record of its run, its result files, and its failures by cause.

    ``job`` is the ID of the job that reported the train; empty if the train was never reported.
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
    """A wagon that is enabled on a dataset, with the result of its trial. ``may_ride`` is whether the wagon passed."""

    wagon: str
    state: str = ""
    trial: int = 0
    may_ride: bool = False
    seconds: float = 0.0
    memory_bytes: int = 0


@dataclass(frozen=True)
class NewTrain:
    """The choices in the form for a new train: all datasets, and the wagons that are enabled on the chosen dataset.

    ``like`` is the order of an earlier train, from which the form gets its initial values; None for an empty form.
    """

    datasets: list[str]
    dataset: str = ""
    wagons: list[Candidate] = field(default_factory=list)
    like: TrainOrder | None = None


def trains(ask: Ask) -> Page:
    """The list of trains, newest first."""
    first = ask.number("first")
    found, total = ask.room.trains.trains(first, ROWS)
    return Page("trains.html", "Trains", TrainsListed(found, total, first))


def train(ask: Ask) -> Page:
    """One train with its status and results."""
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
        "site_chart": None if record is None else job_site_chart(record),
        "charts": [] if record is None else charts_over_time(record),
    }
    return Page("train.html", f"Train {number}: {found.order.name}", shown, extra)


def new_train(ask: Ask) -> Page:
    """The form for a new train over a dataset.

    The query parameter ``like`` is the number of a train from which the form gets its initial values.
    """
    datasets = [one.address for one in ask.room.registry.datasets()]
    like = _train(ask, ask.number("like")).order if ask.number("like") else None
    dataset = ask.text("dataset") or (like.dataset if like else datasets[0] if len(datasets) == 1 else "")
    if dataset and dataset not in datasets:
        raise HTTPException(404, f"unknown dataset {dataset!r:.160}")
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


def _train(ask: Ask, number: int) -> Train:
    try:
        return ask.room.trains.train(number)
    except NoSuchEntryError as error:
        raise HTTPException(404, str(error)) from None


@dataclass(frozen=True)
class TrainsCompared:
    """The comparison of a train with another train.

    ``other`` is the number of the other train; or 0. ``choices`` are earlier trains with the same wagons
    and dataset.
    """

    number: int
    other: int = 0
    choices: list[int] = field(default_factory=list)
    compared: RunsCompared | None = None


def compare(ask: Ask) -> Page:
    """The comparison of a train with the train in the query parameter ``with``.

    The default is the last earlier train with the same wagons and dataset.
    """
    number = ask.path_number("number")
    train = _train(ask, number)
    choices = [one.number for one in ask.room.trains.earlier(train)]
    other = ask.number("with") or (choices[0] if choices else 0)
    shown = TrainsCompared(number, other, choices)
    if other:
        second = _train(ask, other)
        records = _record(ask, train), _record(ask, second)
        outs = ask.room.trains.results(train), ask.room.trains.results(second)
        shown = TrainsCompared(number, other, choices, compare_runs(outs[0], records[0], outs[1], records[1]))
    parts = shown.compared.parts if shown.compared else []
    drawn = [one for one in parts if one.state != SAME and one.bins is not None and one.bins.first]
    pictures = [bins_picture(one.name, one.bins) for one in drawn[:COMPARED_PICTURES_MAX] if one.bins is not None]
    extra = {"pictures": pictures, "left_out": len(drawn) - len(pictures)}
    return Page("train_comparison.html", f"Train {number} compared with an earlier run", shown, extra)


def _record(ask: Ask, train: Train) -> JobRecord:
    record = job_of(ask.room.trains.results(train))
    if record is None:
        raise HTTPException(404, f"train {train.number} has no results yet")
    return record


async def train_bundle(request: Request) -> Response:
    """Return a ZIP archive for running a train on other machines."""
    ask = Ask(request)
    return await run_in_threadpool(_bundle_response, ask.room, ask.path_number("number"))


def _bundle_response(room: ControlRoom, number: int) -> Response:
    train = room.trains.train(number)
    content = bundle(train, room.trains.folder(number), job_of(room.trains.results(train)))
    name = f"train-{number}.zip"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Content-Security-Policy": STRANGER_POLICY}
    return Response(content, media_type="application/zip", headers=headers)


async def train_file(request: Request) -> Response:
    """Return a result file of a train. Serves only files that the train's record lists."""
    ask = Ask(request)
    return await run_in_threadpool(_file_response, ask.room, ask.path_number("number"), ask.path("path"))


def _file_response(room: ControlRoom, number: int, name: str) -> Response:
    out = room.trains.results(room.trains.train(number))
    path = result_file(out, job_of(out), name)
    if path is None:
        raise HTTPException(404, "the train has no such file")
    kind = _SHOWN.get(path.suffix.removeprefix("."))
    headers = {"Content-Security-Policy": STRANGER_POLICY}
    if kind is None:
        return FileResponse(path, media_type="application/octet-stream", filename=path.name, headers=headers)
    return FileResponse(path, media_type=kind, headers=headers)
