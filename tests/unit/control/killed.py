"""Control rooms whose process is killed again and again, at moments that a seed chooses: what was acknowledged is there
once, what was not is there once or not at all, and at the end all is as in a room that was never disturbed.

    python -m tests.unit.control.killed --seeds 0:100

Each life of a room has ten kills: while it is opened, takes batches by two threads, and writes and joins files.
"""

from __future__ import annotations

import argparse
import os
import random
import select
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.compute
import pyarrow.parquet
from tests.unit.control.batches import batch, identity, last, read

from branchline.control.history import compaction
from branchline.control.history.rows import packed_rows, table_of
from branchline.control.reports.jobs import JobDetails, JobQuery
from branchline.control.reports.readings import Period
from branchline.control.room import ControlRoom
from branchline.records.sending.message import ReportBatch
from branchline.records.sensors.record import FileRecord

KILLS = 10
JOBS, BATCHES, FILES_MAX = 4, 24, 16
SITES, ELEMENTS = ("cern", "gsi"), ("root://se.cern", "root://se.gsi", "root://se.jinr")
BEGIN = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(days=2)
# A process that does not open its room for so long hangs.
READY_WAIT_S = 240.0
# Few files are joined, so that it happens often.
FILES_JOINED = 2
READY, WRONG = "ready", "WRONG"


@dataclass
class Plan:
    """What jobs send in a life, and what was acknowledged so far, by the number of the job and of the batch."""

    batches: dict[tuple[int, int], ReportBatch]
    acknowledged: set[tuple[int, int]] = field(default_factory=set)

    @classmethod
    def of(cls, chance: random.Random) -> Plan:
        """Some jobs, whose files are named by job, batch and number."""
        batches = {}
        for job in range(JOBS):
            who = identity(f"job{job}", f"user{job % 2}", BEGIN + timedelta(hours=job))
            for number in range(BATCHES - 1):
                reads = [
                    read(f"{job}/{number}/{one}", chance.choice(ELEMENTS), 100 + one, 1.0, chance.choice(SITES))
                    for one in range(chance.randrange(1, FILES_MAX))
                ]
                batches[job, number] = batch(who, number, *reads, after_s=3600.0 * number)
            batches[job, BATCHES - 1] = last(who, BATCHES - 1, after_s=3600.0 * BATCHES)
        return cls(batches)

    def job(self, index: int) -> str:
        """The name of a job for the control room."""
        return self.batches[index, 0].identity.job


def run_seed(seed: int, folder: Path) -> str:
    """One life of a room; what it was. Raises AssertionError."""
    # What Arrow loads when it is first used takes longer than most lives.
    table_of(packed_rows([FileRecord("f")]), "0" * 32, BEGIN.isoformat())
    chance = random.Random(seed)
    plan = Plan.of(chance)
    for _ in range(KILLS):
        lines = chance.choice([0, 0, 1, 5, 10, 20, 40])
        delay_s = chance.uniform(0, 0.03 if lines else 0.1)
        text = killed(partial(live, folder / "room", plan, chance.randrange(2**32)), lines, delay_s)
        for line in text.splitlines():
            if line.startswith(WRONG):
                raise AssertionError(f"seed {seed}: {line}")
            if line.endswith("."):
                job, number = map(int, line.rstrip(".").split())
                plan.acknowledged.add((job, number))
    count = len(plan.acknowledged)
    text = killed(partial(finish, folder, plan), 1, 0.0)
    assert READY in text, f"seed {seed}: {text or 'the process ended without a word'}"
    return f"seed {seed}: {count} of {len(plan.batches)} batches were acknowledged before the last kill"


def killed(work: Callable[[int], None], lines: int, delay_s: float) -> str:
    """What a process wrote until it was killed: some time after it wrote so many lines."""
    inlet, outlet = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(inlet)
        try:
            work(outlet)
        except BaseException as error:  # noqa: BLE001 - the process above says so
            os.write(outlet, f"{WRONG} {type(error).__name__}: {error!s:.500}\n".encode())
        os._exit(0)
    os.close(outlet)
    text = b""
    try:
        deadline_s = time.monotonic() + READY_WAIT_S
        while text.count(b"\n") < lines and time.monotonic() < deadline_s:
            if select.select([inlet], [], [], 1.0)[0]:
                some = os.read(inlet, 65536)
                text += some
                if not some:
                    break
        time.sleep(delay_s)
    finally:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    while some := os.read(inlet, 65536):
        text += some
    os.close(inlet)
    return text.decode(errors="replace")


def live(folder: Path, plan: Plan, seed: int, out: int) -> None:
    """Opens the room, checks it, and works until it is killed. Acknowledges each batch by a line."""
    compaction.HISTORY_FILES_JOINED = FILES_JOINED
    room = ControlRoom(folder)
    check(room, plan)
    os.write(out, f"{READY}\n".encode())
    threading.Thread(target=_keep, args=(room, out), daemon=True).start()
    threading.Thread(target=_take, args=(room, plan, random.Random(seed), out), daemon=True).start()
    _take(room, plan, random.Random(seed + 1), out)


def _keep(room: ControlRoom, out: int) -> None:
    try:
        while True:
            compaction.write_waiting(room._history)
            compaction.join_files(room._history, datetime.now(UTC).date().isoformat(), lambda: None)
    except BaseException as error:  # noqa: BLE001 - the process above says so
        os.write(out, f"{WRONG} {type(error).__name__}: {error!s:.500}\n".encode())


def _take(room: ControlRoom, plan: Plan, chance: random.Random, out: int) -> None:
    """Sends what is left in any order, and now and then what was sent before."""
    keys = list(plan.batches)
    while True:
        left = [key for key in keys if key not in plan.acknowledged] or keys
        key = chance.choice(left if chance.random() < 0.8 else keys)
        was_there = key in plan.acknowledged
        taken = room.take(plan.batches[key])
        if taken and was_there:
            os.write(out, f"{WRONG} batch {key} was taken twice\n".encode())
        os.write(out, f"{key[0]} {key[1]}.\n".encode())
        plan.acknowledged.add(key)
        time.sleep(0.002)


def finish(folder: Path, plan: Plan, out: int) -> None:
    """Opens the room, sends all, and compares it with one that was never disturbed."""
    compaction.HISTORY_FILES_JOINED = FILES_JOINED
    room, other = ControlRoom(folder / "room"), ControlRoom(folder / "undisturbed")
    check(room, plan)
    for key in sorted(plan.batches):
        room.take(plan.batches[key])
        assert other.take(plan.batches[key])
        plan.acknowledged.add(key)
    check(room, plan)
    for one in (room, other):
        one.upkeep.tidy()
    check(room, plan)
    for ours, theirs in zip(everything(room, plan), everything(other, plan), strict=True):
        assert ours == theirs, f"{ours!s:.400} is not {theirs!s:.400}"
    os.write(out, f"{READY}\n".encode())


def everything(room: ControlRoom, plan: Plan) -> list[Any]:
    """All that a room knows, but for the time at which it learned that."""
    whole = Period()
    found: list[Any] = [room.site_table(whole), room.element_hours(whole), room.file_groups(["site"], whole)]
    found += [room.costs("user", whole), room.costs("wagon", whole)]
    found += [[replace(one, seen="") for one in room.jobs(JobQuery(order="name")).rows]]
    for index in range(JOBS):
        details = room.job(plan.job(index))
        assert isinstance(details, JobDetails)
        found.append(replace(details, row=replace(details.row, seen="")))
        found.append(sorted(one.path for one in room.files(plan.job(index)).files))
    return found


def check(room: ControlRoom, plan: Plan) -> None:
    """Each batch is there whole and once or not at all, and the acknowledged ones are. Raises AssertionError."""
    rows = 0
    for index in range(JOBS):
        page = room.files(plan.job(index))
        paths = [one.path for one in page.files]
        assert len(paths) == page.total, f"{page.total} rows are listed and {len(paths)} are there"
        assert len(set(paths)) == len(paths), f"job {index} has rows twice"
        there = {int(path.split("/")[1]) for path in paths}
        wanted = sorted(one.path for number in there for one in plan.batches[index, number].files)
        assert sorted(paths) == wanted, f"job {index} has parts of batches"
        lost = {number for job, number in plan.acknowledged if job == index and number < BATCHES - 1} - there
        assert not lost, f"job {index} has lost the batches {lost}"
        details = room.job(plan.job(index))
        has_ended = details is not None and details.record is not None
        assert has_ended or (index, BATCHES - 1) not in plan.acknowledged, f"the end of job {index} is lost"
        rows += len(paths)
    table = room.site_table(Period())
    assert table.total.every.files == rows, f"{table.total.every.files} files are in the sums, {rows} in the history"
    assert sum(one.reads.files for one in room.element_hours(Period())) == rows
    check_folder(room)


def check_folder(room: ControlRoom) -> None:
    """The files in the folder are those that are listed, with the rows that are listed."""
    with room._database.reading() as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        listed = dict(connection.execute("SELECT name, rows FROM history_files").fetchall())
        by_job = dict(connection.execute("SELECT name, sum(rows) FROM history_jobs GROUP BY name").fetchall())
    assert by_job == listed
    folder = room.folder / "history"
    assert {str(path.relative_to(folder)) for path in folder.glob("date=*/*")} == set(listed)
    for name, rows in listed.items():
        assert pyarrow.parquet.read_metadata(folder / name).num_rows == rows


def main() -> int:
    """The number of lives that went wrong, as an exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:100", metavar="FIRST:END")
    first, end = map(int, parser.parse_args().seeds.split(":"))
    wrong, begin_s = 0, time.monotonic()
    for seed in range(first, end):
        with tempfile.TemporaryDirectory() as folder:
            try:
                print(run_seed(seed, Path(folder)), flush=True)
            except AssertionError as error:
                wrong += 1
                print(f"{WRONG} {error}", flush=True)
    print(f"{end - first} rooms, {KILLS * (end - first)} kills, {wrong} wrong, {time.monotonic() - begin_s:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
