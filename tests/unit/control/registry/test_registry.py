"""Wagons, datasets and what runs on what: who may change them, and every change is kept."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from branchline.control.database import Database
from branchline.control.people import OPERATOR, Person
from branchline.control.registry.entries import DatasetEntry, MergeGroup, WagonEntry, WagonSource
from branchline.control.registry.registry import Registry, SourceStore
from branchline.control.room_errors import ConflictError, NoSuchEntryError, RefusedError
from branchline.errors import OptionError, WagonError

ADA, BOB, OLGA = Person("ada"), Person("bob"), Person("olga", OPERATOR)
SOURCE = """
class Spectrum:
    def __init__(self, pt_min: float = 20.0, bins: int = 50): ...
    def process(self, events):
        return NUMBER

class Counter:
    def process(self, events): ...
"""


@pytest.fixture
def sources(tmp_path: Path) -> SourceStore:
    return SourceStore(tmp_path / "sources")


@pytest.fixture
def registry(tmp_path: Path, sources: SourceStore) -> Iterator[Registry]:
    database = Database(tmp_path / "room")
    yield Registry(database, sources)
    database.close()


@pytest.fixture
def spectrum(sources: SourceStore) -> WagonEntry:
    sha256 = sources.keep(SOURCE.replace("NUMBER", "1").encode())
    return WagonEntry("ada", "spectrum", "muons", source=WagonSource(sha256), wagon_class="Spectrum")


def test_a_wagon_has_what_its_class_says(registry: Registry, spectrum: WagonEntry) -> None:
    registry.save_wagon(replace(spectrum, values={"pt_min": 25}), ADA)
    whole = registry.wagon("ada/spectrum")
    assert [one.name for one in whole.wagon_class.parameters] == ["pt_min", "bins"]
    assert whole.values == {"pt_min": 25.0}


def test_a_variant_differs_in_values_only_and_follows_its_wagon(registry: Registry, spectrum: WagonEntry) -> None:
    revision = registry.save_wagon(replace(spectrum, values={"pt_min": 25.0, "bins": 10}), ADA)
    registry.save_wagon(WagonEntry("bob", "tight", variant_of="ada/spectrum", values={"pt_min": 40.0}), BOB)
    assert registry.wagon("bob/tight").values == {"pt_min": 40.0, "bins": 10}
    registry.save_wagon(replace(spectrum, values={"bins": 20}), ADA, revision)
    assert registry.wagon("bob/tight").values == {"pt_min": 40.0, "bins": 20}
    with pytest.raises(OptionError, match="is used by bob/tight"):
        registry.remove_wagon("ada/spectrum", ADA)
    with pytest.raises(OptionError, match="is itself a variant"):
        registry.save_wagon(WagonEntry("bob", "more", variant_of="bob/tight"), BOB)


def test_people_change_what_is_theirs_and_operators_all(registry: Registry, spectrum: WagonEntry) -> None:
    with pytest.raises(RefusedError, match="bob may not change entries of ada"):
        registry.save_wagon(spectrum, BOB)
    revision = registry.save_wagon(spectrum, OLGA)
    with pytest.raises(RefusedError):
        registry.remove_wagon("ada/spectrum", BOB)
    assert registry.save_wagon(replace(spectrum, description="new"), ADA, revision) > revision


def test_the_slower_of_two_people_is_told(registry: Registry, spectrum: WagonEntry) -> None:
    revision = registry.save_wagon(spectrum, ADA)
    registry.save_wagon(replace(spectrum, description="first"), ADA, revision)
    with pytest.raises(ConflictError, match="changed by another user"):
        registry.save_wagon(replace(spectrum, description="second"), OLGA, revision)
    with pytest.raises(ConflictError, match="already exists"):
        registry.save_wagon(spectrum, ADA)
    assert registry.wagon("ada/spectrum").entry.description == "first"


def test_of_two_who_save_at_once_one_wins(registry: Registry, spectrum: WagonEntry) -> None:
    revision = registry.save_wagon(spectrum, ADA)
    outcomes: list[str] = []

    def save(text: str) -> None:
        try:
            registry.save_wagon(replace(spectrum, description=text), ADA, revision)
            outcomes.append("saved")
        except ConflictError:
            outcomes.append("conflict")

    threads = [threading.Thread(target=save, args=(f"text {number}",)) for number in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(30)
    assert sorted(outcomes) == ["conflict"] * 7 + ["saved"]


def test_wagons_come_once_and_behind_those_that_they_require(registry: Registry, spectrum: WagonEntry) -> None:
    registry.save_wagon(spectrum, ADA)
    registry.save_wagon(replace(spectrum, name="second", requires=["ada/spectrum"]), ADA)
    registry.save_wagon(replace(spectrum, name="third", requires=["ada/second", "ada/spectrum"]), ADA)
    found = registry.with_required(["ada/third", "ada/spectrum", "ada/second"])
    assert [one.entry.name for one in found] == ["spectrum", "second", "third"]


def test_wagons_cannot_require_each_other_in_a_circle(registry: Registry, spectrum: WagonEntry) -> None:
    first = registry.save_wagon(spectrum, ADA)
    registry.save_wagon(replace(spectrum, name="second", requires=["ada/spectrum"]), ADA)
    with pytest.raises(OptionError, match="would require itself"):
        registry.save_wagon(replace(spectrum, requires=["ada/second"]), ADA, first)
    with pytest.raises(NoSuchEntryError, match="unknown wagon 'ada/none'"):
        registry.save_wagon(replace(spectrum, requires=["ada/none"]), ADA, first)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "../etc"}, "name of a wagon"),
        ({"owner": "<b>"}, "owner of a wagon"),
        ({"group": "a b"}, "group"),
        ({"wagon_class": "Missing"}, "has no wagon 'Missing'"),
        ({"values": {"pt_min": "high"}}, "pt_min cannot be 'high'"),
        ({"values": {"pt_max": 1}}, "no parameter 'pt_max'"),
        ({"description": "x" * 5000}, "longer than 4000"),
        ({"description": "\x1b[2J"}, "control characters"),
        ({"source": None}, "has no source"),
        ({"source": WagonSource("../../../etc/passwd")}, "not the SHA-256"),
        ({"source": WagonSource("0" * 64)}, "was uploaded"),
    ],
)
def test_what_is_wrong_with_a_wagon_is_said(
    registry: Registry, spectrum: WagonEntry, change: dict[str, object], message: str
) -> None:
    with pytest.raises((OptionError, NoSuchEntryError), match=message):
        registry.save_wagon(replace(spectrum, **change), OLGA)  # type: ignore[arg-type]
    assert registry.wagons() == []
    assert registry.changes() == []


def test_the_grid_is_enabled_by_wagon_group_and_copy(registry: Registry, spectrum: WagonEntry) -> None:
    for owner, name, group in (
        ("ada", "a", "muons"),
        ("ada", "b", "muons"),
        ("bob", "c", "muons"),
        ("ada", "d", "jets"),
    ):
        registry.save_wagon(replace(spectrum, owner=owner, name=name, group=group), OLGA)
    for name in ("first", "second"):
        registry.save_dataset(DatasetEntry("olga", name, files=["/data/*.root"]), OLGA)
    assert registry.enable_group("muons", "olga/first", ADA) == 2
    assert registry.enable(["bob/c"], "olga/first", BOB) == 1
    assert registry.enable(["bob/c"], "olga/first", BOB) == 0
    assert registry.enable(["ada/d"], "olga/second", ADA) == 1
    assert registry.copy_activations("olga/first", "olga/second", ADA) == 3
    assert registry.grid().enabled == {
        *((wagon, "olga/first") for wagon in ("ada/a", "ada/b", "bob/c")),
        *((wagon, "olga/second") for wagon in ("ada/a", "ada/b")),
    }
    assert [one.address for one in registry.grid("jets").wagons] == ["ada/d"]
    with pytest.raises(RefusedError):
        registry.enable(["ada/a", "bob/c"], "olga/second", ADA, is_enabled=False)
    assert ("ada/a", "olga/second") in registry.grid().enabled, "all or none"
    registry.remove_wagon("ada/a", ADA)
    assert not [one for one in registry.grid().enabled if one[0] == "ada/a"]


def test_every_change_is_kept_with_who_and_what(registry: Registry, spectrum: WagonEntry, sources: SourceStore) -> None:
    revision = registry.save_wagon(replace(spectrum, values={"pt_min": 10.0}), ADA)
    newer = WagonSource(sources.keep(SOURCE.replace("NUMBER", "2").encode()))
    registry.save_wagon(replace(spectrum, values={"pt_min": 30.0}, source=newer), OLGA, revision)
    registry.remove_wagon("ada/spectrum", ADA)
    removed, changed, created = registry.changes("wagon", "ada/spectrum")
    assert [(one.who, one.action) for one in (created, changed, removed)] == [
        ("ada", "created"),
        ("olga", "changed"),
        ("ada", "removed"),
    ]
    fields = {one.name: one for one in changed.fields}
    assert (fields["values.pt_min"].before, fields["values.pt_min"].after) == ("10.0", "30.0")
    assert [line for line in fields["code"].lines if line.startswith(("-  ", "+  "))] == [
        "-        return 1",
        "+        return 2",
    ]
    assert registry.changes(before=changed.number) == [created]
    differ = registry.compare_moments("wagon", "ada/spectrum", created.at, changed.at)
    assert {one.name for one in differ} == {"values.pt_min", "source.sha256", "code"}


def test_two_wagons_side_by_side(registry: Registry, spectrum: WagonEntry) -> None:
    registry.save_wagon(spectrum, ADA)
    registry.save_wagon(WagonEntry("bob", "tight", variant_of="ada/spectrum", values={"pt_min": 40.0}), BOB)
    fields = {one.name: (one.before, one.after) for one in registry.compare("ada/spectrum", "bob/tight")}
    assert fields["values.pt_min"] == ("20.0", "40.0")
    assert "code" not in fields


@pytest.mark.parametrize(
    "change",
    [
        {"files": []},
        {"files": ["/x"] * 10_001},
        {"files": ["/" * 5000]},
        {"files": ["data/*.root"]},
        {"merge_groups": [MergeGroup("a"), MergeGroup("a")]},
        {"merge_groups": [MergeGroup("a/b")]},
        {"name": ""},
    ],
)
def test_datasets_that_are_none_are_refused(registry: Registry, change: dict[str, object]) -> None:
    entry = replace(DatasetEntry("ada", "muons", files=["/a"]), **change)  # type: ignore[arg-type]
    with pytest.raises(OptionError):
        registry.save_dataset(entry, ADA)


def test_a_source_that_was_changed_on_the_disk_is_noticed(sources: SourceStore) -> None:
    sha256 = sources.keep(SOURCE.encode())
    sources.path(sha256).write_text("other")
    with pytest.raises(WagonError, match="was changed on the disk"):
        sources.text(sha256)
    with pytest.raises(WagonError, match="is not UTF-8 text"):
        sources.keep(b"\xff\xfe")


@pytest.mark.parametrize("field", ["files", "short", "companions"])
def test_lines_of_a_dataset_are_no_options_of_a_command(registry: Registry, field: str) -> None:
    entry = replace(DatasetEntry("ada", "events", files=["/data/a.root"]), **{field: ["--report-to=http://x.example"]})
    with pytest.raises(OptionError, match="begins with a hyphen"):
        registry.save_dataset(entry, ADA)
    with pytest.raises(OptionError, match="begins with a hyphen"):
        registry.save_dataset(DatasetEntry("ada", "events", files=["/data/a.root"], tree="-o"), ADA)
    assert registry.save_dataset(DatasetEntry("ada", "events", files=["/data/a.root"], runs=["- 2026"]), ADA)
