"""Expressions, cuts and aliases: their values, what is read for them, and what is refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
from tests.unit.reading.trees.conftest import Sample

import branchline
from branchline.reading.expressions.functions import FUNCTIONS
from branchline.reading.trees.stream import ChunkStream

# Each with what NumPy makes of the columns.
VALUES = {
    "number + 2 * energy": lambda v: v.number + 2 * v.energy,
    "(number // 7) % 3 - 1": lambda v: (v.number // 7) % 3 - 1,
    "-energy ** 2 / 3": lambda v: -(v.energy**2) / 3,
    "number & 3 | 8 ^ 1 << 2": lambda v: v.number & 3 | 8 ^ 1 << 2,
    "is_good & (energy > 0)": lambda v: v.is_good & (v.energy > 0),
    "is_good and energy > 0 or number < 1010": lambda v: v.is_good & (v.energy > 0) | (v.number < 1010),
    "not is_good": lambda v: ~v.is_good,
    "~is_good": lambda v: ~v.is_good,
    "-1 < energy <= 0.5": lambda v: (v.energy > -1) & (v.energy <= 0.5),
    "sqrt(energy ** 2)": lambda v: np.sqrt(v.energy**2),
    "np.hypot(energy, numpy.abs(number))": lambda v: np.hypot(v.energy, np.abs(v.number)),
    "where(is_good, energy, 0)": lambda v: ak.where(v.is_good, v.energy, 0),
    "hits * energy": lambda v: v.hits * v.energy,
    "hits[hits > 0]": lambda v: v.hits[v.hits > 0],
    "matrix[:, 1, ::2]": lambda v: v.matrix[:, 1, ::2],
    "min(energy, number)": lambda v: np.minimum(v.energy, v.number),
    "max(energy, 0.5) + max(hits)": lambda v: np.maximum(v.energy, 0.5) + ak.max(v.hits, axis=-1),
    "sum(hits)": lambda v: ak.sum(v.hits, axis=-1),
    "num(hits) == get('n_hits')": lambda v: ak.num(v.hits) == v.n_hits,
    "any(hits > 0)": lambda v: ak.any(v.hits > 0, axis=-1),
    "label == 'xy'": lambda v: v.label == "xy",
    "2 ** 3": lambda v: np.full(len(v), 8),
}
REFUSED = [
    "__import__('os').system('true')",
    "energy.tolist()",
    "open('f')",
    "np.load('f')",
    "lambda: energy",
    "[x for x in energy]",
    "{'a': energy}",
    "f'{energy}'",
    "(x := 3)",
    "energy if is_good else 0",
    "await energy",
    "energy @ number",
    "1 in hits",
    "energy is None",
    "sqrt(x=energy)",
    "sqrt(*hits)",
    "energy; number",
    "import os",
    "get(energy)",
    "get('energy', 'number')",
    "None",
    "b'text'",
    "",
    "energy +",
    "\0",
    "(" * 5000,
    "-" * 100_000 + "1",
    "+".join(["energy"] * 50_000),
]
NOT_COMPUTED = {
    "energy[:3]": "3 values for 100 entries",
    "energy[0]": "a single value for all entries",
    "sum(energy)": "a list per entry is needed",
    "hits[:, 0]": "index out of range",
    "label + 1": "string",
    "'a' * 10**9": "arithmetic is not defined for strings",
    "10 ** 10 ** 10": "too large",
    "1 << 10 ** 9": "too large",
    "1 / 0": "division by zero",
    "hits.x": "no member 'x'",
    "energy.__class__": "no member '__class__'",
    "energy.layout": "no member 'layout'",
    "(1).__class__": "no member '__class__'",
    "matrix + hits": "broadcast",
}


@pytest.fixture(scope="module")
def tree(sample: Sample) -> Any:
    return branchline.open(sample.location)


@pytest.fixture
def read_paths(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The branches of each reading."""
    noted: list[list[str]] = []
    begin = ChunkStream.of

    def of(sources: Any, request: Any) -> ChunkStream:
        noted.append(list(request.branches))
        return begin(sources, request)

    monkeypatch.setattr(ChunkStream, "of", of)
    return noted


@pytest.mark.parametrize("expression", VALUES)
def test_an_expression_has_the_value_that_numpy_gives(sample: Sample, tree: Any, expression: str) -> None:
    wanted = ak.Array(VALUES[expression](sample.values))
    assert ak.array_equal(tree.arrays([expression])[expression], wanted)
    parts = [part[expression] for part in tree.iterate(expression, step_size=33)]
    assert ak.array_equal(ak.concatenate(parts), wanted)
    columns = tree.arrays(expression, library="np", how=list, entry_start=7, entry_stop=20)
    assert ak.array_equal(ak.Array(list(columns[0])), ak.Array(list(wanted[7:20])), dtype_exact=False)


@pytest.mark.parametrize("expression", REFUSED)
def test_what_is_no_expression_is_refused_before_anything_is_read(
    tree: Any, expression: str, read_paths: list[list[str]]
) -> None:
    for options in ({"expressions": expression}, {"expressions": "number", "cut": expression}):
        with pytest.raises(branchline.BranchlineError) as caught:
            tree.arrays(**options)
        assert read_paths == []
        assert len(str(caught.value)) < 2000


@pytest.mark.parametrize(
    ("expression", "place"),
    [
        ("energy +* 2", "invalid syntax at '* 2', character 9"),
        ("  energy ** ", "invalid syntax at its end"),
        ("  energy $ 2", "invalid syntax at '$ 2', character 10"),
        ("energy * (2 + number", "'(' was never closed at '(2 + number', character 10"),
        ("energy > 0 ? 1 : 2", "invalid syntax at '? 1 : 2', character 12"),
        ("(energy *\n  * number)", "invalid syntax at '* number)', line 2, character 3"),
        ("hits[0", "'[' was never closed at '[0', character 5"),
    ],
)
def test_what_cannot_be_parsed_is_told_with_the_place(tree: Any, expression: str, place: str) -> None:
    for options in ({"expressions": expression}, {"expressions": ["number", expression]}, {"cut": expression}):
        with pytest.raises(branchline.ExpressionError, match="cannot be parsed as an expression") as refused:
            tree.arrays(**options)
        assert str(refused.value).endswith(f": {place}")


@pytest.mark.parametrize("expression", NOT_COMPUTED)
def test_what_cannot_be_computed_says_why(sample: Sample, tree: Any, expression: str) -> None:
    with pytest.raises(branchline.ExpressionError, match=NOT_COMPUTED[expression]) as caught:
        tree.arrays(expression)
    assert expression in str(caught.value)
    assert str(sample.path) in str(caught.value)


def test_mathematical_functions_are_those_of_python(tree: Any) -> None:
    numbers = [0.5, 3.0, 2.5]
    for name in ("erf", "erfc", "gamma", "lgamma"):
        assert FUNCTIONS[name](ak.Array([numbers])).tolist() == [[getattr(math, name)(one) for one in numbers]]
    assert np.isnan(FUNCTIONS["gamma"](ak.Array([0.0, -1.0]))).tolist() == [True, True]
    assert FUNCTIONS["gamma"](200.0) == np.inf
    assert FUNCTIONS["factorial"](ak.Array([[3], [0, 5]])).tolist() == [[6], [1, 120]]
    assert tree.arrays("tgamma(3)")["tgamma(3)"][0] == 2


def test_only_the_branches_of_an_expression_are_read(tree: Any, read_paths: list[list[str]]) -> None:
    aliases = {"scaled": "energy * 3", "unused": "matrix"}
    tree.arrays(["scaled", "number"], cut="num(hits) > 1", aliases=aliases)
    tree.arrays("get('label')")
    tree.arrays("hits")
    assert [sorted(paths) for paths in read_paths] == [["energy", "hits", "number"], ["label"], ["hits"]]


def test_a_cut_keeps_events(sample: Sample, tree: Any) -> None:
    wanted = sample.values[sample.values.energy > 0]
    cut = tree.arrays(["number", "hits", "label", "matrix"], cut="energy > 0")
    assert ak.array_equal(cut, wanted[cut.fields])
    assert ak.array_equal(tree.arrays("number", "energy")["number"], sample.values.number[sample.values.energy != 0])
    assert len(tree.arrays([], cut="energy > 0")) == len(wanted)
    assert tree.arrays(["number"], cut="energy > 1e9").number.tolist() == []
    by_steps = list(tree.iterate(["number", "hits"], cut="energy > 0", step_size=9))
    assert ak.array_equal(ak.concatenate(by_steps), wanted[["number", "hits"]])


def test_a_cut_without_a_value_is_false(sample: Sample, tree: Any) -> None:
    cut = tree.arrays("number", cut="max(hits) > 0")
    assert cut.number.tolist() == sample.values.number[ak.any(sample.values.hits > 0, axis=1)].tolist()


def test_a_cut_keeps_values_of_lists(sample: Sample, tree: Any) -> None:
    cut = tree.arrays(["hits", "hits + energy"], cut="hits > 0.5")
    values = sample.values
    assert ak.array_equal(cut.hits, values.hits[values.hits > 0.5])
    assert ak.array_equal(cut["hits + energy"], (values.hits + values.energy)[values.hits > 0.5])
    with pytest.raises(branchline.ExpressionError, match="does not fit number"):
        tree.arrays(["hits", "number"], cut="hits > 0.5")


@pytest.mark.parametrize("library", ["np", "pd", "arrow"])
def test_a_cut_comes_in_every_library(sample: Sample, tree: Any, library: str) -> None:
    kept = np.asarray(sample.values.energy > 0)
    cut = tree.arrays(["number", "hits"], cut="energy > 0", library=library)
    assert np.asarray(cut["number"]).tolist() == sample.values.number[kept].tolist()
    assert [len(hits) for hits in cut["hits"]] == ak.num(sample.values.hits[kept]).tolist()
    if library == "pd":
        assert cut.index.tolist() == np.flatnonzero(kept).tolist()


def test_an_alias_may_use_another(sample: Sample, tree: Any) -> None:
    aliases = {"double": "energy * 2", "fourfold": "double * 2", "same": "hits"}
    read = tree.arrays(["fourfold", "same", "fourfold - double"], aliases=aliases)
    assert ak.array_equal(read["fourfold"], sample.values.energy * 4)
    assert ak.array_equal(read["same"], sample.values.hits)
    assert ak.array_equal(read["fourfold - double"], sample.values.energy * 4 - sample.values.energy * 2)
    locations = [sample.location, sample.location]
    joined = branchline.concatenate(locations, "fourfold", aliases=aliases)
    assert joined.fourfold.tolist() == [*read.fourfold.tolist(), *read.fourfold.tolist()]


def test_aliases_in_a_circle_are_told(tree: Any) -> None:
    with pytest.raises(branchline.ExpressionError, match="'a' refers to itself: a -> b -> a"):
        tree.arrays("a", aliases={"a": "b + 1", "b": "a + 1"})


def test_an_alias_does_not_hide_a_branch(sample: Sample, tree: Any) -> None:
    with pytest.warns(branchline.BranchlineWarning, match="energy: both alias and branch"):
        read = tree.arrays("energy", aliases={"energy": "number"})
    assert ak.array_equal(read.energy, sample.values.energy)


def test_a_function_is_one_only_where_it_is_called(tree: Any) -> None:
    with pytest.raises(branchline.NoSuchKeyError, match="is a function"):
        tree.arrays("sqrt + 1")


@pytest.mark.parametrize("text", ["enrgy * 2", "get('enrgy')", "sqrt(enrgy)"])
def test_a_name_in_an_expression_that_is_not_there_is_told_with_near_ones(sample: Sample, tree: Any, text: str) -> None:
    with pytest.raises(branchline.NoSuchKeyError, match=r"'enrgy'.*did you mean energy") as caught:
        tree.arrays(text)
    assert str(sample.path) in str(caught.value)


@pytest.mark.parametrize("asked", [3, b"energy", {"energy": "f4"}, [("energy", "f4")], ["energy", None], object()])
def test_what_is_no_text_is_refused(tree: Any, asked: Any) -> None:
    with pytest.raises(branchline.OptionError):
        tree.arrays(asked)


@pytest.mark.parametrize(
    "options",
    [
        {"cut": 10},
        {"cut": np.ones(100, "?")},
        {"aliases": ["a"]},
        {"aliases": {"a": 1}},
        {"language": "C"},
        {"how": "nothing"},
        {"how": set},
        {"library": "cupy"},
        {"library": None},
        {"ak_add_doc": 3},
        {"filter_name": 3},
        {"filter_typename": b"int"},
        {"filter_branch": "number"},
        {"filter_branch": lambda branch: branch},
        {"filter_name": "/(/"},
    ],
)
def test_what_an_option_cannot_be_is_refused(tree: Any, options: dict[str, Any]) -> None:
    for read in (tree.arrays, lambda **some: next(tree.iterate(**some))):
        with pytest.raises(branchline.OptionError):
            read(**options)


def test_other_interpretations_are_refused(tree: Any) -> None:
    branch = tree["energy"]
    assert str(branch.interpretation) == "float64"
    assert len(branch.array(branch.interpretation)) == 100
    for other in ("f4", 10, np.dtype("i8"), object()):
        with pytest.raises(branchline.OptionError):
            branch.array(other)


@pytest.mark.parametrize("name", ["lazy", "TBranch", "AsDtype"])
def test_what_uproot_has_and_branchline_not_is_told_with_what_does_the_same(name: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(branchline, name)
    assert isinstance(caught.value, branchline.BranchlineError)
    assert caught.value.hint
    assert not hasattr(branchline, name)


def test_options_of_opening_are_known(sample: Sample, tmp_path: Path) -> None:
    assert branchline.open(sample.path, num_workers=3, object_cache=None)["events"].entries_count == 100
    with pytest.raises(branchline.OptionError, match="did you mean timeout"):
        branchline.open(sample.path, tiemout=3)
    with pytest.raises(branchline.OptionError, match="custom_classes"):
        next(branchline.iterate(sample.location, custom_classes={"A": object}))
    with pytest.raises(branchline.OptionError):
        branchline.open(3)
    with (tmp_path / "file").open("wb") as file, pytest.raises(branchline.OptionError):
        branchline.open(file)


def test_names_in_letters_that_python_spells_otherwise_are_found(tmp_path: Path) -> None:
    micro = "\N{MICRO SIGN}_pt"
    with branchline.recreate(tmp_path / "a.root") as file:
        file.mktree("events", {micro: [1.5, 2.5], "\u03b7": [1.0, 2.0]})
    tree = branchline.open(tmp_path / "a.root")["events"]
    found = tree.arrays(f"{micro} * 2", cut=f"({micro} > 2) & (\u03b7 > 1)", aliases={"twice": f"2 * {micro}"})
    assert found.to_list() == [{f"{micro} * 2": 5.0}]
    with pytest.raises(branchline.NoSuchKeyError, match="no branch or alias"):
        tree.arrays(f"{micro}x * 2")
