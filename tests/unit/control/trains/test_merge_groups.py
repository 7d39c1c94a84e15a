"""Merge groups of a dataset: their results are kept apart, and every file counts once."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.clusters.event_files import write_events
from tests.unit.control.trains.test_trains import ADA, until

from branchline.control.registry.entries import DatasetEntry, MergeGroup, WagonEntry, WagonSource
from branchline.control.room import ControlRoom
from branchline.control.trains.bundle import bundle, groups_for_others, write_groups
from branchline.control.trains.train import TrainOrder
from branchline.control.trials.trial import DONE
from branchline.errors import OptionError
from branchline.records.sensors.record import FINISHED

SOURCE = "class Count:\n    branches = ['px']\n    def process(self, events):\n        return {'n': len(events)}\n"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    write_events(folder, 5, 100)
    return folder


def files(data: Path) -> list[str]:
    return sorted(map(str, data.glob("*.root")))


@pytest.fixture
def room(tmp_path: Path) -> Iterator[ControlRoom]:
    room = ControlRoom(tmp_path / "room")
    room.trials.start()
    room.trains.start()
    yield room
    room.close()


def test_a_train_has_results_for_each_group_and_for_the_rest(room: ControlRoom, data: Path) -> None:
    source = WagonSource(room.sources.keep(SOURCE.encode()))
    room.registry.save_wagon(WagonEntry("ada", "Count", source=source, wagon_class="Count"), ADA)
    names = files(data)
    groups = [MergeGroup("periodA", names[:2]), MergeGroup("periodB", [names[2]])]
    entry = DatasetEntry("ada", "events", files=[str(data / "*.root")], merge_groups=groups)
    room.registry.save_dataset(entry, ADA)
    room.registry.enable(["ada/Count"], "ada/events", ADA)
    room.trials.look()
    pair = ("ada/Count", "ada/events")
    until(lambda: room.trials.last([pair])[pair].state == DONE)
    number = room.trains.order(TrainOrder("ada", "first", "ada/events", ["ada/Count"], workers=1), ADA)
    until(lambda: room.trains.train(number).is_over)
    train = room.trains.train(number)
    assert train.state == FINISHED, train.why
    found = json.loads((room.trains.results(train) / "results" / "Count.json").read_text())
    assert found == {"periodA": {"n": 200}, "periodB": {"n": 100}, "rest": {"n": 200}}
    archive = zipfile.ZipFile(io.BytesIO(bundle(train, room.trains.folder(number), None)))
    folder = f"train-{number}-first"
    assert list(json.loads(archive.read(f"{folder}/dataset.json"))) == ["periodA", "periodB", "rest"]
    assert "dataset.json -o results" in archive.read(f"{folder}/run.sh").decode()


def test_a_file_counts_once_and_is_one_of_the_dataset(data: Path, tmp_path: Path) -> None:
    names = files(data)
    entry = DatasetEntry("ada", "events", files=names[:4], merge_groups=[MergeGroup("a", names[:2])])
    twice = replace(entry, merge_groups=[*entry.merge_groups, MergeGroup("b", [names[1]])])
    with pytest.raises(OptionError, match="is in the merge groups a and b"):
        write_groups(twice, tmp_path)
    with pytest.raises(OptionError, match="of merge group c is not in the dataset ada/events"):
        write_groups(replace(entry, merge_groups=[MergeGroup("c", [names[4]])]), tmp_path)


def test_lists_for_others_have_no_secrets(tmp_path: Path) -> None:
    content = {"a": {"files": ["https://ada:secret@host/f.root", "/data/f.root | root://bob:secret@se//f.root"]}}
    (tmp_path / "dataset.json").write_text(json.dumps(content))
    shown = groups_for_others(tmp_path / "dataset.json").decode()
    assert "secret" not in shown
    assert shown.count("f.root") == 3
