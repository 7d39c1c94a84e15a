"""Runs a train again as it was, into another directory, and says under which other conditions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from branchline.errors import MissingFileError, OptionError
from branchline.records.sensors.record import RUNNING, JobRecord
from branchline.trains.plan import TrainPlan, TrainRequest
from branchline.trains.rerun import EarlierRun, earlier_run
from branchline.trains.run import run_quietly
from branchline.trains.running.result import TrainResult


@dataclass(frozen=True)
class Reproduction:
    """A train that ran once more. ``conditions`` are sentences on what differed between both runs besides the results,
    ``notes`` what could not be done as then.
    """

    first: JobRecord
    result: TrainResult
    conditions: list[str]
    notes: list[str]


def reproduce(
    out: Path, into: Path, *, workers: int | None = None, present_code: bool = False, force: bool = False
) -> Reproduction:
    """Runs the train whose results are in ``out`` once more, into the directory ``into``.

    The code is that of the first run, which is kept with its results; with ``present_code`` that of the files as they
    are now. Nothing is taken from kept results. Raises MissingFileError if no train is kept, OptionError for a
    directory that cannot be, and what ``branchline.run`` raises.
    """
    out, into = out.absolute(), into.absolute()
    if out.resolve() == into.resolve():
        raise OptionError("the first results would be replaced", path=str(into), hint="give another directory with -o")
    first = _record_of(out)
    earlier = earlier_run(out)
    if earlier.ledger is not None:
        earlier.ledger.close()
    earlier.enter()
    plan, workers = _loaded(earlier, workers, present_code=present_code)
    settings = replace(plan.settings, workers=workers, on=None)
    request = TrainRequest(plan.loaded, plan.dataset, settings, command=first.command, reuse=False)
    result = run_quietly(request, into, force=force, pictures="none")
    return Reproduction(first, result, list(conditions(first, result.record)), earlier.notes)


def _record_of(out: Path) -> JobRecord:
    try:
        record = JobRecord.from_dict(json.loads((out / "job.json").read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise MissingFileError(f"there is no record of a run that can be read: {error}", path=str(out)) from None
    if record.status == RUNNING:
        raise OptionError("this run has not come to its end", path=str(out), hint="wait for it, or resume it")
    return record


def _loaded(earlier: EarlierRun, workers: int | None, *, present_code: bool) -> tuple[TrainPlan, int | None]:
    """The plan with its wagons, and the number of workers that can have their code."""
    stored = earlier.stored
    changed = [] if stored.sources is None else stored.sources.changed()
    if stored.sources is None:
        earlier.notes.append("the code of the first run is not kept: the present files of the wagons run")
    if present_code or not changed:
        return stored.loaded(), workers
    what = f"the code of the first run is used, since {', '.join(changed)} changed"
    earlier.notes.append(f"{what}; it runs in one process, which alone has it")
    return stored.loaded_as_it_was(), 0


def conditions(first: JobRecord, second: JobRecord) -> Iterator[str]:
    """What differs between two runs besides their results, in sentences."""
    if first.branchline != second.branchline:
        yield f"Branchline was {first.branchline}, and is {second.branchline} now"
    yield from _differences("", first.versions, second.versions)
    yield from _differences("the variable ", first.environment, second.environment)
    then = {one.module: one for one in first.sources}
    for one in second.sources:
        before = then.get(one.module)
        if before is not None and before.sha256 != one.sha256:
            commit = f" (commit {before.commit[:12]}, {before.state})" if before.commit else ""
            yield f"{one.path} is another one than then{commit}"
    sizes = {(one.path, one.tree): (one.size_bytes, one.entries) for one in first.dataset}
    now = {(one.path, one.tree): (one.size_bytes, one.entries) for one in second.dataset}
    for key in sizes.keys() - now.keys():
        yield f"{key[0]} is not read any more"
    for key in now.keys() - sizes.keys():
        yield f"{key[0]} was not read then"
    for key in sorted(sizes.keys() & now.keys(), key=str):
        if None not in (*sizes[key], *now[key]) and sizes[key] != now[key]:
            (had_bytes, had_entries), (has_bytes, has_entries) = sizes[key], now[key]
            had = f"{had_bytes} bytes and {had_entries} entries"
            yield f"{key[0]} had {had}, and has {has_bytes} bytes and {has_entries} entries now"


def _differences(what: str, first: Mapping[str, str], second: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(first.keys() | second.keys()):
        then, now = first.get(name), second.get(name)
        # What only one run noted, as of an older version, says nothing.
        if then is not None and now is not None and then != now:
            yield f"{what}{name} was {then}, and is {now} now"
