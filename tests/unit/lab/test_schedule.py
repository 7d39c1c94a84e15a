"""Storages are watched turn after turn: what a turn finds, its history, and the text for admins."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path

import pytest
from tests.branchline_command import run_branchline

from branchline.control.watched_storages import schedules
from branchline.errors import OptionError
from branchline.lab.sampling.job import JobOutcome
from branchline.lab.sampling.machine import Surroundings
from branchline.lab.sampling.samples import StudySample
from branchline.lab.studies.history import HISTORY, HistoryPoint, add_points, histories, points_of, verdict
from branchline.lab.studies.schedule import REFERENCE, StorageWatch, take_turn
from branchline.lab.studies.study_result import result_of


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "near").mkdir()
    for number in range(2):
        (tmp_path / "near" / f"{number}.root").write_bytes(random.Random(number).randbytes(300_000))
    return tmp_path


def test_a_turn_compares_each_storage_with_a_copy_here_and_names_one_that_is_gone(data: Path) -> None:
    watch = StorageWatch(where=(str(data / "near"), str(data / "gone")))
    folder = data / "watched" / "site"
    for seed in range(2):
        take_turn(watch, folder, seed, lambda _: None)
    assert sum(one.stat().st_size for one in (folder / REFERENCE).iterdir()) == 600_000
    near, gone = sorted(histories(folder), key=lambda one: one.storage, reverse=True)
    assert [one.samples for one in near.points] == [6, 6]
    assert all(one.ratio and one.low and one.high and one.low <= one.ratio <= one.high for one in near.points)
    assert all(one.control and one.megabytes_per_s for one in near.points)
    assert [one.ratio for one in gone.points] == [None, None]
    assert gone.failed_part == 1.0
    lines = verdict([near, gone])
    assert any("nothing could be measured in 2 turns" in one and "gone" in one for one in lines)
    [shown] = schedules(data)
    assert shown.name == "site"
    assert {one.storage: one.turns_count for one in shown.storages} == {near.storage: 2, gone.storage: 2}


def points(storage: str, count: int, ratio: float, first: int = 0) -> list[HistoryPoint]:
    draw = random.Random(first)
    return [
        HistoryPoint(
            f"2026-01-{first + day + 1:02d}T06:00:00+00:00",
            storage,
            ratio * math.exp(draw.gauss(0, 0.02)),
            megabytes_per_s=100 / ratio,
            samples=6,
        )
        for day in range(count)
    ]


def test_a_change_has_its_date_and_size_in_the_text_for_admins(tmp_path: Path) -> None:
    add_points(tmp_path, points("slow.example.org", 12, 1.0) + points("slow.example.org", 10, 1.5, 12))
    add_points(tmp_path, points("good.example.org", 22, 1.0))
    lines = verdict(histories(tmp_path))
    [change] = [one for one in lines if "since" in one]
    assert change.startswith("slow.example.org: since 2026-01-13 06:00 UTC it is 1.5")
    assert "slower" in change
    assert "good.example.org: no change of its speed is seen" in lines
    assert lines[-1].startswith("slowest is slow.example.org: it takes 1.")


def test_turns_on_a_busy_machine_are_kept_but_raise_no_alarm(tmp_path: Path) -> None:
    busy = [replace(one, is_busy=True) for one in points("se.example.org", 10, 1.5, 12)]
    add_points(tmp_path, points("se.example.org", 12, 1.0) + busy)
    [found] = histories(tmp_path)
    assert (len(found.points), found.changes) == (22, [])
    assert found.ratio == pytest.approx(1.0, rel=0.05)
    lines = verdict([found])
    assert "se.example.org: no change of its speed is seen" in lines
    assert "se.example.org: 10 turns on a machine busy with other programs do not count" in lines
    [alone] = verdict([replace(found, points=busy, ratio=None)])
    assert alone == "se.example.org: no turn counts: other programs kept the machine busy (10 turns)"


def test_a_turn_knows_whether_other_programs_kept_the_machine_busy() -> None:
    for around in (Surroundings(cores=2), Surroundings(cores=2, others_share=0.4)):
        study = StorageWatch(where=("far",)).study(Path("near"))
        taken = [
            StudySample(number, 0, arm, "arm", "", 1.0, [JobOutcome(0, wall_s=1.0, cpu_s=0.2)], 1000, 0, "", around)
            for number in range(6)
            for arm in ("storage reference", "storage far")
        ]
        [point] = points_of(result_of(study, 1, taken), "2026-01-01", "here", ["far"])
        assert (point.ratio, point.is_busy) == (1.0, around.others_share > 0)


def test_a_line_that_a_kill_tore_is_left_out_and_the_next_turn_is_whole(tmp_path: Path) -> None:
    add_points(tmp_path, points("a", 2, 1.0))
    path = tmp_path / HISTORY
    path.write_bytes(path.read_bytes()[:-40])
    add_points(tmp_path, points("a", 1, 1.0, 5))
    [found] = histories(tmp_path)
    assert [one.at[:10] for one in found.points] == ["2026-01-01", "2026-01-06"]


@pytest.mark.parametrize(
    ("options", "said"), [({"pairs": 3}, "too few for an interval"), ({"where": ("a", "a")}, "distinct storages")]
)
def test_what_cannot_be_watched_is_refused(tmp_path: Path, options: dict[str, object], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        take_turn(StorageWatch(**{"where": ("a",), **options}), tmp_path, 1, lambda _: None)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="create one with: branchline study schedule"):
        histories(tmp_path / "none")


def test_the_command_takes_turns_and_says_the_verdict(data: Path) -> None:
    turn = ["study", "schedule", data / "near", "-o", data / "out", "--every", "1 s", "--turns", "2"]
    done = run_branchline(data, turn)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("times the time of the reference") == 2
    said = run_branchline(data, ["study", "history", data / "out"])
    assert "(2 turns)" in said.stdout, said.stderr
