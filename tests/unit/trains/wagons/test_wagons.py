"""Wagons are found in a file, checked before anything runs, and ordered by what they require."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from branchline.errors import WagonError
from branchline.trains.wagons.wagons import load_wagons, wagons_of


class Plain:
    def process(self, events: Any) -> int:
        return len(events)


class Named(Plain):
    def __init__(self, name: str, requires: tuple[str, ...] = (), branches: Any = None) -> None:
        self.name = name
        self.requires = requires
        self.branches = branches


def names(wagons: Any) -> list[str]:
    return [wagon.name for wagon in wagons_of(wagons)[0]]


def load(folder: Path, text: str) -> list[str]:
    file = folder / "my wagons.py"
    file.write_text(text)
    return [wagon.name for wagon in load_wagons(str(file))[0]]


def test_one_object_or_class_or_a_list_of_them_will_do() -> None:
    assert names(Plain()) == ["Plain"]
    assert names([Plain, Named("other")]) == ["Plain", "other"]


def test_a_wagon_of_a_file_is_found_by_each_of_its_names(tmp_path: Path) -> None:
    file = tmp_path / "names.py"
    file.write_text("class Spectra:\n    name = 'spectra'\n\n    def process(self, events): ...\n")
    for name in ("Spectra", "spectra"):
        assert [wagon.name for wagon in load_wagons(f"{file}:{name}")[0]] == ["spectra"]


def test_a_wagon_stands_behind_those_it_requires_and_otherwise_where_it_was() -> None:
    train = [Named("a", ("d", "c")), Named("b"), Named("c", ("d",)), Named("d")]
    assert names(train) == ["d", "c", "a", "b"]


@pytest.mark.parametrize(
    ("wagons", "message"),
    [
        ([Named("a", ("b",)), Named("b", ("c",)), Named("c", ("a",))], "in a cycle: .* requires .* requires"),
        ([Named("a", ("a",))], "in a cycle: a requires a"),
        ([Named("jets", ("trakcs",)), Named("tracks")], "requires 'trakcs', .*did you mean 'tracks'"),
        ([Named("jets", ("xyz",))], "requires 'xyz', which is not in the train; choose one of jets"),
        ([Named("a"), Named("a")], "two wagons are named 'a'"),
        ([Named("a", branches="px")], "branches of wagon 'a' is 'px', not a list of names"),
        ([Named("a", branches=[1])], "not a list of names"),
        ([object()], r"no method process\(events\)"),
        ([Named], "cannot be created without arguments"),
        ([], "at least one wagon"),
    ],
)
def test_what_cannot_run_is_refused_before_it_does(wagons: Any, message: str) -> None:
    with pytest.raises(WagonError, match=message):
        wagons_of(wagons)


def test_a_file_gives_its_objects_and_its_own_classes(tmp_path: Path) -> None:
    text = """
from collections import OrderedDict
from abc import ABC, abstractmethod
class Base(ABC):
    @abstractmethod
    def process(self, events): ...
class First(Base):
    def process(self, events): return 1
class Second:
    def __init__(self, cut): self.cut = cut
    def process(self, events): return 2
class _Hidden:
    def process(self, events): return 3
loose = Second(1)
tight = Second(2)
"""
    assert load(tmp_path, text) == ["loose", "tight", "First"]


def test_a_list_named_wagons_wins(tmp_path: Path) -> None:
    text = """
class A:
    def process(self, events): return 1
class B(A): pass
class C(A): name = "see"
wagons = [C(), B]
"""
    assert load(tmp_path, text) == ["see", "B"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "contains no wagon"),
        ("import nosuchmodule", "cannot be loaded: ModuleNotFoundError"),
        ("def broken(", "cannot be loaded: SyntaxError"),
        ("class A:\n    def __init__(self, cut): pass\n    def process(self, e): pass", "A cannot be created without"),
        ("wagons = [3]", "no method process"),
    ],
)
def test_a_file_that_gives_no_wagon_says_why(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(WagonError, match=message):
        load(tmp_path, text)
    with pytest.raises(WagonError, match=r"nowhere\.py: no such wagon file"):
        load_wagons(str(tmp_path / "nowhere.py"))


def test_a_wagon_file_may_import_what_lies_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", list(__import__("sys").path))
    (tmp_path / "beside_the_wagons.py").write_text("CUT = 5")
    assert load(tmp_path, "from beside_the_wagons import CUT\nclass A:\n  def process(self, e): return CUT") == ["A"]
