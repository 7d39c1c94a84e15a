"""Companion files reach wagons event by event, and only if they want them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

import branchline
from branchline.records.report.job_summary import summary
from branchline.writing.merging.convert import convert

FILES, EVENTS = 3, 12
SHORT = 9  # entries of the tree that ends early


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three folders of a main file with a companion of a directory for each event, and one of a tree for all."""
    folder = tmp_path_factory.mktemp("sets")
    for number in range(FILES):
        (folder / str(number)).mkdir()
        write_set(folder / str(number), number)
    return folder


def particles_of(number: int, event: int) -> np.ndarray:
    return np.arange((event * 7 + number) % 5) * 1.5 + event


def write_set(folder: Path, number: int) -> None:
    with uproot.recreate(folder / "main.root") as file:
        file.mktree("events", {"x": "f8"}).extend({"x": np.arange(EVENTS) + 100.0 * number})
    with uproot.recreate(folder / "Kinematics.root") as file:
        for event in range(EVENTS):
            if (number, event) == (1, 4):
                continue  # this event has no directory
            values = particles_of(number, event)
            hits = ak.unflatten(np.arange(len(values), dtype="f8"), np.ones(len(values), "i8"))
            tree = file.mktree(f"Event{event}/TreeK", {"pt": "f8", "Hit": "var * float64"})
            if len(values):
                tree.extend({"pt": values, "Hit": hits})
    with uproot.recreate(folder / "header.root") as file:
        count = SHORT if number == 2 else EVENTS
        file.mktree("TE", {"weight": "f8"}).extend({"weight": np.arange(count) * 0.5})


def run(folder: Path, wagon: Any, **options: Any) -> Any:
    files = [str(folder / str(number) / "main.root") for number in range(FILES)]
    companions = options.pop("companions", ["Kinematics.root", "header=header.root:TE"])
    return branchline.run([wagon], files, companions=companions, **options)


class Truth:
    """What every event finds in its companions."""

    def process(self, events: Any) -> Any:
        truth, header = events.companion["Kinematics"], events.companion["header"]
        return {
            "x": events.x.to_list(),
            "pt": truth.pt.to_list(),
            "hits": truth.Hit.to_list(),
            "weight": header.weight.to_list(),
            "chosen": events[events.x > 105].companion["Kinematics"].pt.to_list(),
        }


class Main:
    """Wants nothing of companions."""

    def process(self, events: Any) -> Any:
        return {"x": events.x.to_list(), "names": list(events.companion)}


def wanted() -> dict[str, list[Any]]:
    x = [event + 100.0 * number for number in range(FILES) for event in range(EVENTS)]
    pt = [particles_of(n, e).tolist() if (n, e) != (1, 4) else [] for n in range(FILES) for e in range(EVENTS)]
    weight = [None if (n, e) >= (2, SHORT) else e * 0.5 for n in range(FILES) for e in range(EVENTS)]
    chosen = [values for place, values in zip(x, pt, strict=True) if place > 105]
    hits = [[[float(hit)] for hit in range(len(values))] for values in pt]
    return {"x": x, "pt": pt, "hits": hits, "weight": weight, "chosen": chosen}


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("step", [5, "100 MB"])
def test_every_event_finds_what_is_its_own(
    sets: Path, workers: int, step: int | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("branchline.trains.subjobs.shares.SUBJOB_MIN_BYTES", 1)
    result = run(sets, Truth(), workers=workers, step_size=step)
    assert result.exit_code == 0, result.errors
    assert result.outputs["Truth"] == wanted()
    missing = {one["name"]: one for one in result.job["companions_missing"]}
    assert missing["Kinematics"]["events_missing"] == 1
    assert missing["Kinematics"]["first"] == [f"{sets / '1' / 'Kinematics.root'}: entry 4"]
    assert missing["header"]["events_missing"] == EVENTS - SHORT
    assert f"Kinematics lacks 1 event: {sets / '1' / 'Kinematics.root'}: entry 4" in summary(result.record)
    assert {"x", "Kinematics:pt", "header:weight"} <= set(result.job["wagons"][0]["branches"])


@pytest.mark.parametrize(("main", "header"), [("root", "parquet"), ("parquet", "root"), ("parquet", "parquet")])
def test_parquet_files_have_companions_and_are_some(sets: Path, tmp_path: Path, main: str, header: str) -> None:
    shutil.copytree(sets, tmp_path / "sets")
    for one in sorted((tmp_path / "sets").iterdir()):
        convert(one / "main.root", one / "main.parquet")
        convert(one / "header.root", one / "main-header.parquet")
        shutil.copy(one / "header.root", one / "main-header.root")
    files = [str(tmp_path / "sets" / str(number) / f"main.{main}") for number in range(FILES)]
    companions = ["Kinematics.root", f"{{stem}}-header.{header}"]
    result = branchline.run([Truth()], files, companions=companions, workers=1, step_size=5)
    assert (result.exit_code, result.outputs["Truth"]) == (0, wanted()), result.errors
    records = [one for one in result.record.files if one.path.endswith(f"main-header.{header}")]
    assert len(records) == FILES
    for one in records:
        assert one.bytes_read >= one.compressed_bytes > 0
        assert min(one.read_calls, one.baskets, one.open_s or 0) > 0


def test_companions_are_read_once_and_only_if_they_are_wanted(sets: Path) -> None:
    calls = {Path(one["path"]).name: one["read_calls"] for one in run(sets, Truth(), workers=1).job["files"]}
    assert calls == {"main.root": 1, "Kinematics.root": 1, "header.root": 1}
    result = run(sets, Main(), workers=1)
    assert {Path(one["path"]).name for one in result.job["files"]} == {"main.root"}
    assert result.outputs["Main"]["names"][:2] == ["Kinematics", "header"]
    assert result.job["companions_missing"] == []


def test_a_companion_that_is_not_there_stops_the_job_or_skips_the_file(sets: Path) -> None:
    companions = {"Kinematics": "nowhere.root", "header": "header.root"}
    with pytest.warns(UserWarning, match=r"nowhere\.root"):
        result = run(sets, Truth(), workers=1, companions=companions)
    assert result.exit_code == 1
    with pytest.warns(UserWarning, match=r"nowhere\.root"):
        result = run(sets, Truth(), workers=1, companions=companions, skip_bad_files=True)
    assert sum(one["entries_lost"] for one in result.job["skipped"]) == FILES * EVENTS
    assert run(sets, Main(), workers=1, companions=companions).exit_code == 0


@pytest.mark.parametrize(
    ("name", "branch", "message"),
    [("Kinematic", "pt", "choose one of Kinematics, header"), ("Kinematics", "ptt", "did you mean pt")],
)
def test_an_error_about_a_wrong_name_lists_the_right_ones(sets: Path, name: str, branch: str, message: str) -> None:
    class Wrong:
        def process(self, events: Any) -> Any:
            return len(events.companion[name][branch])

    with pytest.warns(UserWarning, match=message):
        assert run(sets, Wrong(), workers=1).exit_code != 0


def test_a_forecast_tries_wagons_with_their_companions(sets: Path) -> None:
    outcome = branchline.forecast(
        [Truth()], str(sets / "0" / "main.root"), companions=["Kinematics.root", "header.root"]
    )
    assert not outcome.failed, outcome.wagons[0].error
