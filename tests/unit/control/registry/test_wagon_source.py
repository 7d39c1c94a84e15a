"""Wagons in a Python file are found without running it."""

from __future__ import annotations

from pathlib import Path

import pytest

from branchline.control.registry.wagon_source import wagon_classes
from branchline.errors import OptionError, WagonError
from branchline.trains.wagons.parameters import WagonParameter

FILE = '''
from dataclasses import dataclass, field
from typing import ClassVar
raise SystemExit("this file must not run")

class Base:
    branches = ["Muon_pt", "Muon_eta"]
    def process(self, events):
        return 0

class Spectrum(Base):
    """Spectra of muons.

    More."""
    def __init__(self, pt_min: float, bins=[0.0, 1, 2], *, label: "str" = "all", tight=False):
        pass

@dataclass
class Counter:
    pt_min: float = 20
    names: list[str] = field(default_factory=list)
    branches: ClassVar[list[str]] = ["nMuon"]
    requires = ("Spectrum",)
    def process(self, events): ...

class _Hidden(Base): ...

class NoWagon:
    def run(self): ...
'''


def test_classes_have_parameters_branches_and_requirements() -> None:
    base, spectrum, counter = wagon_classes(FILE)
    assert [one.name for one in (base, spectrum, counter)] == ["Base", "Spectrum", "Counter"]
    assert spectrum.parameters == [
        WagonParameter("pt_min", "float"),
        WagonParameter("bins", "list[float]", [0.0, 1.0, 2.0]),
        WagonParameter("label", "str", "all"),
        WagonParameter("tight", "bool", False),
    ]
    assert (spectrum.branches, spectrum.description) == (["Muon_pt", "Muon_eta"], "Spectra of muons.")
    assert spectrum.line == 11
    assert counter.parameters == [WagonParameter("pt_min", "float", 20.0), WagonParameter("names", "list[str]", [])]
    assert (counter.branches, counter.requires) == (["nMuon"], ["Spectrum"])
    assert base.parameters == []


def test_values_are_checked_against_the_class() -> None:
    _, spectrum, _ = wagon_classes(FILE)
    assert spectrum.checked({"pt_min": 5, "tight": True}) == {"pt_min": 5.0, "tight": True}
    with pytest.raises(OptionError, match="needs a value for pt_min"):
        spectrum.checked({})
    with pytest.raises(OptionError, match="no parameter 'pt_max'"):
        spectrum.checked({"pt_min": 5, "pt_max": 9})


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("class A:\n    def process(self, events) return 1", "line 2"),
        ("x = 1", "contains no wagon"),
        (
            "class A:\n    def process(self, e): ...\n    def __init__(self, cut): ...",
            "line 3: parameter cut has no supported type",
        ),
        (
            "class A:\n    def process(self, e): ...\n    def __init__(self, *cuts): ...",
            r"the __init__ of A has \* or \*\* parameters",
        ),
        ("class A:\n    def process(self, e): ...\n    def __init__(self, a: int = f()): ...", "is not a literal"),
        ("class A:\n    def process(self, e): ...\n    def __init__(self, a: int = 'b'): ...", "cannot be 'b'"),
        ("class A:\n    branches = [1]\n    def process(self, e): ...", "branches of A"),
        ("(" * 100_000, "cannot be parsed|line 1"),
        ("a\0b", "cannot be parsed|line"),
        ("#" * 1_000_001, "longer than"),
        ("\n".join(f"class A{n}:\n    def process(self, e): ..." for n in range(201)), "more than 200"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(source: str, message: str) -> None:
    with pytest.raises(WagonError, match=message) as caught:
        wagon_classes(source, "mine.py")
    assert "mine.py" in str(caught.value)


def test_the_wagons_of_the_demo_are_found(repository: Path) -> None:
    source = (repository / "python" / "branchline" / "trains" / "demo" / "demo_wagons.py").read_text(encoding="utf-8")
    assert len(wagon_classes(source)) == 3


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("".join(f"class A{i}(A{i - 1}): pass\n" for i in range(1, 3000)), "3000 classes"),
        ("class A:\n" + "".join(f"    a{i}: int = 0\n" for i in range(3000)), "3001 statements in A"),
        (
            f"class A:\n    def __init__(self, {', '.join(f'a{i}=0' for i in range(1600))}): ...\n",
            "1600 parameters of A",
        ),
        (f"class A:\n    branches = [{','.join(['0'] * 30_000)}]\n", "30000 names"),
        ("".join(f"class A{i}(Base): pass\n" for i in range(300)), "wagons, more than 200"),
        (
            "class A:\n    def __init__(self, a: int = " + "-" * 900 + "x): ...\n",
            "cannot be parsed|nested too deeply|is not a literal",
        ),
    ],
)
def test_a_file_that_would_take_minutes_to_look_through_is_refused(source: str, said: str) -> None:
    base = "class Base:\n    def process(self, events): ...\n"
    source = source.replace("A0)", "Base)").replace("class A:", "class A(Base):")
    with pytest.raises(WagonError, match=said):
        wagon_classes(base + source)


def test_a_class_that_is_made_from_many_in_many_ways_is_found() -> None:
    source = "class A0:\n    def process(self, events): ...\nclass B0(A0): pass\n"
    source += "".join(
        f"class A{i}(A{i - 1}, B{i - 1}): pass\nclass B{i}(B{i - 1}, A{i - 1}): pass\n" for i in range(1, 90)
    )
    assert len(wagon_classes(source)) == 180
