"""A train as an archive for other machines: its command is the words that were ordered, whatever is in them."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.control.plans.passed_room import ADA, DATASET, WAGONS, make_room, until

from branchline.control.room import ControlRoom
from branchline.control.trains.bundle import bundle
from branchline.control.trains.train import WAITING, TrainOrder
from branchline.control.trials.trial import DONE, WARNED

# Files in it are named in the command, and not in a list: a list takes no blanks.
NASTY = "$(touch made) `touch made`; touch made 'x\" & # data"
#: Stands where the other machine has its branchline, and writes down each of its words.
WORDS = """#!{python}
import json, sys
json.dump(sys.argv[1:], open("words.json", "w"))
"""


@pytest.mark.long
def test_names_of_files_are_no_code_for_the_shell_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_room(tmp_path)
    (tmp_path / "data").rename(tmp_path / NASTY)
    files = [str(tmp_path / NASTY / "*.root")]
    monkeypatch.setattr("branchline.control.trains.trains.TRAIN_SECONDS_APPROVED", 0.0)
    with closing(ControlRoom(folder)) as room:
        entry, revision = room.registry.dataset(DATASET)
        room.registry.save_dataset(replace(entry, files=files), ADA, revision)
        room.trials.start()
        room.trials.look()
        pair = (WAGONS[0], DATASET)
        until(lambda: (last := room.trials.last([pair])[pair]).key == room.trials.key_of(*pair) and last.ended != "")
        assert room.trials.last([pair])[pair].state in (DONE, WARNED)
        train = room.trains.train(room.trains.order(TrainOrder("ada", "first", DATASET, WAGONS[:1]), ADA))
        assert train.state == WAITING
        content = bundle(train, room.trains.folder(train.number), None)
    zipfile.ZipFile(io.BytesIO(content)).extractall(tmp_path / "elsewhere")
    [place] = (tmp_path / "elsewhere").iterdir()
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "branchline").write_text(WORDS.format(python=sys.executable))
    (programs / "branchline").chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    subprocess.run(["sh", "run.sh"], cwd=place, env=environment, check=True, timeout=280)
    words = json.loads((place / "words.json").read_text())
    assert words[:3] == ["run", "wagons.py", files[0]]
    assert not list(place.rglob("made")) + list(tmp_path.glob("made"))
