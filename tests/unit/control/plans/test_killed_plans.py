"""Plans of a server that is killed at any moment; ``python -m tests.unit.control.plans.killed_plans`` has a thousand
kills.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.sampled import long_but
from tests.unit.control.plans.passed_room import DATASET, OLGA, make_room, until

from branchline.control.plans.plan import Plan, Schedule
from branchline.control.room import ControlRoom
from branchline.records.sensors.record import FINISHED

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
DUE = datetime(2026, 11, 23, 6, tzinfo=UTC)
PLAN = Plan("olga", "weekly", DATASET, Schedule(["Monday"]), workers=1)
#: Looks at the plans of a room, and is killed where it would call a method of the trains.
LOOK = """
import os, signal, sys
from datetime import datetime
from pathlib import Path
from branchline.control.room import ControlRoom
from branchline.control.trains.trains import Trains
setattr(Trains, sys.argv[3], lambda *_: os.kill(os.getpid(), signal.SIGKILL))
ControlRoom(Path(sys.argv[1])).plans.look(datetime.fromisoformat(sys.argv[2]))
"""


@pytest.mark.long
def test_a_due_time_has_one_train_or_none_whatever_is_killed(repository: Path) -> None:
    seed = random.SystemRandom().randrange(2**31)
    words = [sys.executable, "-m", "tests.unit.control.plans.killed_plans", "--seeds", f"{seed}:{seed + 3}"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=repository, timeout=500, check=False)
    print(done.stdout, done.stderr)
    assert done.returncode == 0


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_room(tmp_path_factory.mktemp("made"))


@pytest.mark.long
@pytest.mark.parametrize(
    ("moment", "is_there"), long_but([("_composed", False), ("_keep", False), ("_begin", True)], [("_begin", True)])
)
def test_a_train_that_is_killed_while_it_is_made_runs_once(
    made: Path, tmp_path: Path, moment: str, is_there: bool
) -> None:
    shutil.copytree(made, tmp_path / "room")
    room = ControlRoom(tmp_path / "room")
    room.plans.save(PLAN, OLGA, now=NOON)
    room.close()
    words = [sys.executable, "-c", LOOK, str(room.folder), DUE.isoformat(), moment]
    done = subprocess.run(words, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    room = ControlRoom(tmp_path / "room")
    assert room.trains.trains()[1] == is_there
    assert (room.plans.plan(PLAN.address).due > DUE.isoformat()) == is_there
    room.trains.start()
    for minutes in range(3):
        room.plans.look(DUE + timedelta(minutes=minutes))
    until(lambda: room.trains.train(1).is_over)
    assert (room.trains.train(1).state, room.trains.trains()[1]) == (FINISHED, 1)
    room.close()
