"""A train beside an earlier run: results bin by bin, and what both cost."""

from __future__ import annotations

from dataclasses import dataclass, field

from starlette.exceptions import HTTPException

from branchline.base.limits import COMPARED_PICTURES_MAX
from branchline.control.room_errors import NoSuchEntryError
from branchline.control.trains.comparison.compared import SAME, RunsCompared
from branchline.control.trains.comparison.run_comparison import compare_runs
from branchline.control.trains.train import Train
from branchline.control.web.bin_pictures import bins_picture
from branchline.control.web.pages.page import Ask, Page
from branchline.records.sensors.record import JobRecord
from branchline.trains.out_folder.state import job_of


@dataclass(frozen=True)
class TrainsCompared:
    """A train and the one that it is compared with. ``choices`` are earlier ones of the same wagons and dataset;
    ``other`` is 0 if there is none to compare with.
    """

    number: int
    other: int = 0
    choices: list[int] = field(default_factory=list)
    compared: RunsCompared | None = None


def compare(ask: Ask) -> Page:
    """Compares with the train ``with``, or with the last one before it of the same wagons and dataset."""
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
    return Page("train_comparison.html", f"Train {number} beside an earlier run", shown, extra)


def _train(ask: Ask, number: int) -> Train:
    try:
        return ask.room.trains.train(number)
    except NoSuchEntryError as error:
        raise HTTPException(404, str(error)) from None


def _record(ask: Ask, train: Train) -> JobRecord:
    record = job_of(ask.room.trains.results(train))
    if record is None:
        raise HTTPException(404, f"train {train.number} has no results yet")
    return record
