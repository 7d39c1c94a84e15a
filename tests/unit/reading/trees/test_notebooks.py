"""What a notebook and `dir` show of files, trees and branches."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import uproot

import branchline


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("notebook") / "file.root"
    with uproot.recreate(path) as file:
        for name in ("events", "runs"):
            tree = file.mktree(name, {"x": "f8", "y": "i4"}, title="<b>bold</b>")
            tree.extend({"x": [1.5, 2.5], "y": [1, 2]})
    return path


def test_a_file_shows_its_objects_with_texts_escaped(path: Path) -> None:
    shown = branchline.open(path)._repr_html_()
    assert "<td>events;1</td><td>TTree</td><td>&lt;b&gt;bold&lt;/b&gt;</td>" in shown
    assert "runs;1" in shown


def test_a_tree_shows_its_branches_with_types_and_entries(path: Path) -> None:
    shown = branchline.open(path)["events"]._repr_html_()
    assert "events: 2 entries" in shown
    assert "<td>x</td><td>double</td><td>2</td>" in shown
    assert "<td>y</td><td>int32_t</td><td>2</td>" in shown


def test_a_branch_shows_itself_and_those_below_it_in_a_notebook(path: Path, tmp_path: Path) -> None:
    assert "<td>x</td><td>double</td><td>2</td>" in branchline.open(path)["events/x"]._repr_html_()
    with branchline.recreate(tmp_path / "nested.root") as file:
        file.mkrntuple("events", {"jet": "{pt: float32}"}).extend({"jet": [{"pt": 1.5}]})
    shown = branchline.open(tmp_path / "nested.root")["events/jet"]._repr_html_()
    assert shown.index("<td>jet</td>") < shown.index("pt</td>")


def test_a_wide_tree_shows_the_first_branches_and_how_many_follow(tmp_path: Path) -> None:
    with uproot.recreate(tmp_path / "wide.root") as file:
        file.mktree("wide", {f"x{number}": "f4" for number in range(100)}).extend({f"x{n}": [0] for n in range(100)})
    shown = branchline.open(tmp_path / "wide.root")["wide"]._repr_html_()
    assert "<td>x59</td>" in shown
    assert "<td>x60</td>" not in shown
    assert "40 more branches: show() prints all of them" in shown


def test_dir_of_a_tree_has_what_people_call(path: Path) -> None:
    tree = branchline.open(path)["events"]
    for one in (tree, tree["x"]):
        names = set(dir(one))
        assert {"arrays", "keys", "show", "num_entries", "_repr_html_"} <= names
        assert names.isdisjoint({"core", "shape", "outline", "indices", "number", "selection"})
        assert all(hasattr(one, name) for name in names if not name.startswith("_"))


def test_a_branch_shows_itself(path: Path) -> None:
    text = io.StringIO()
    branchline.open(path)["events/x"].show(stream=text)
    assert text.getvalue().splitlines()[2].split()[:3] == ["x", "double", "2"]
