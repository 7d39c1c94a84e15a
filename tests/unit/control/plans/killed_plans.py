"""Control rooms with plans, whose process is killed again and again at moments that a seed chooses: a due time brings
one train or none and is never forgotten, a full train goes once, and every train can be started.

    python -m tests.unit.control.plans.killed_plans --seeds 0:100

The clock of each room is its own: it goes on by hours with every look, and by a day or more with some kills.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from tests.unit.control.killed import READY, WRONG, killed
from tests.unit.control.plans.passed_room import OLGA, PLAN, WAGONS, make_room

from branchline.base.limits import PLAN_LATE_MAX_S
from branchline.control.plans.plan import DAYS, Fullness, Schedule
from branchline.control.room import ControlRoom
from branchline.control.room_errors import ConflictError
from branchline.control.trains.train import WAITING

KILLS = 10
BEGIN = datetime(2026, 10, 20, 12, tzinfo=UTC)
# Clocks go back on 25 October; trains may run again as they are cancelled at once.
NIGHTLY = replace(PLAN, schedule=Schedule(list(DAYS), "02:30", "Europe/Zurich"), runs_again=True)
# Nothing of the other plan's counts for a schedule that runs again, so that both plans make trains all the time.
FULL = replace(PLAN, name="full", group="slow", full=Fullness(wagons=1))
LOOK = timedelta(hours=3)


def run_seed(seed: int, made: Path, folder: Path) -> str:
    """One life of a room; what it was. Raises AssertionError."""
    chance = random.Random(seed)
    shutil.copytree(made, folder / "room")
    now = BEGIN
    for _ in range(KILLS):
        lines, delay_s = chance.choice([0, 1, 2, 5, 10, 20]), chance.uniform(0, 0.1)
        text = killed(partial(live, folder / "room", now), lines, delay_s)
        for line in text.splitlines():
            if line.startswith(WRONG):
                raise AssertionError(f"seed {seed}: {line}")
            if line.endswith("."):
                now = datetime.fromisoformat(line[:-1])
        now += chance.choice([timedelta(), LOOK, timedelta(hours=5), timedelta(days=1, hours=7)])
    text = killed(partial(finish, folder / "room", now), 1, 0.0)
    assert READY in text, f"seed {seed}: {text or 'the process ended without a word'}"
    return f"seed {seed}: {text.splitlines()[0].removeprefix(READY).strip()}"


def live(folder: Path, now: datetime, out: int) -> None:
    """Opens the room, checks it, and looks at its plans until it is killed. Says each look before it begins."""
    room = ControlRoom(folder)
    check(room)
    for plan in (NIGHTLY, FULL):
        if plan.address not in {one.plan.address for one in room.plans.plans()}:
            room.plans.save(plan, OLGA, now=BEGIN)
    threading.Thread(target=_cancel, args=(room, out), daemon=True).start()
    while True:
        now += LOOK
        os.write(out, f"{now.isoformat()}.\n".encode())
        room.plans.look(now)
        for plan in (NIGHTLY, FULL):
            if room.plans.trouble(plan.address):
                os.write(out, f"{WRONG} {room.plans.trouble(plan.address)}\n".encode())


def _cancel(room: ControlRoom, out: int) -> None:
    """Ends what waits, so that the next due time has wagons."""
    try:
        while True:
            for train in room.trains.trains()[0]:
                if train.state == WAITING:
                    with suppress(ConflictError):
                        room.trains.cancel(train.number, OLGA)
            time.sleep(0.002)
    except Exception as error:  # noqa: BLE001 - the process above says so
        os.write(out, f"{WRONG} {type(error).__name__}: {error!s:.500}\n".encode())


def finish(folder: Path, now: datetime, out: int) -> None:
    """Opens the room for the last time and looks twice at one moment: all is there, and the second look adds none."""
    room = ControlRoom(folder)
    check(room)
    room.plans.look(now)
    before = room.trains.trains()[1]
    room.plans.look(now)
    assert room.trains.trains()[1] == before, "a look at the same moment made a train again"
    check(room)
    if any(one.plan.address == NIGHTLY.address for one in room.plans.plans()):
        check_none_forgotten(room, now)
    os.write(out, f"{READY} {before} trains, {len(room.plans.runs(NIGHTLY.address, 1000))} due times\n".encode())


def check(room: ControlRoom) -> None:
    """Each train of a plan has one run and each run its train, a due time has one run, and trains are whole."""
    with room._database.reading() as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    trains = {one.number: one for one in room.trains.trains(count=10_000)[0]}
    found: dict[int, str] = {}
    for plan in (NIGHTLY, FULL):
        runs = room.plans.runs(plan.address, 10_000)
        due = [one.due for one in runs if one.due]
        assert len(set(due)) == len(due), f"{plan.address} used a due time twice"
        for run in runs:
            if run.train:
                assert run.train not in found, f"train {run.train} has two runs"
                found[run.train] = plan.address
                assert run.train in trains, f"train {run.train} of a run is lost"
                assert trains[run.train].plan_why == run.why
    made = {number: one.plan for number, one in trains.items()}
    assert made == found, f"trains are {made}, and runs say {found}"
    for number, train in trains.items():
        folder = room.trains.folder(number)
        assert (folder / "wagons.py").read_text().count("_named('") == len(train.order.wagons)
        assert (folder / "command.txt").is_file()
    assert sum(one.plan == FULL.address for one in trains.values()) <= 1, "a full train went twice"
    assert {tuple(one.order.wagons) for one in trains.values() if one.plan == NIGHTLY.address} <= {
        tuple(WAGONS),
        (WAGONS[0],),
        (WAGONS[1],),
    }


def check_none_forgotten(room: ControlRoom, now: datetime) -> None:
    """Every due time up to now has a run, or lies in a time that a run says was missed as a whole."""
    assert NIGHTLY.schedule is not None
    runs = sorted(room.plans.runs(NIGHTLY.address, 10_000), key=lambda one: one.due)
    used, due = {one.due for one in runs}, NIGHTLY.schedule.due_after(BEGIN)
    while due <= now:
        earlier = [one for one in runs if one.due < due.isoformat()]
        is_missed = bool(earlier) and "all other due times before" in earlier[-1].why
        assert due.isoformat() in used or is_missed, f"{due} is forgotten"
        due = NIGHTLY.schedule.due_after(due)
    for run in runs:
        late_s = (datetime.fromisoformat(run.at) - datetime.fromisoformat(run.due)).total_seconds()
        assert not run.train or 0 <= late_s <= PLAN_LATE_MAX_S, f"a train went {late_s} s late"


def main() -> int:
    """The number of lives that went wrong, as an exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:100", metavar="FIRST:END")
    first, end = map(int, parser.parse_args().seeds.split(":"))
    wrong, begin_s = 0, time.monotonic()
    with tempfile.TemporaryDirectory() as above:
        made = make_room(Path(above))
        for seed in range(first, end):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    print(run_seed(seed, made, Path(folder)), flush=True)
                except AssertionError as error:
                    wrong += 1
                    print(f"{WRONG} {error}", flush=True)
    print(f"{end - first} rooms, {KILLS * (end - first)} kills, {wrong} wrong, {time.monotonic() - begin_s:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
