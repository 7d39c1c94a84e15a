"""Docstrings of the public classes and functions name errors and have examples; those of reading run as written."""

from __future__ import annotations

import ast
import doctest
import inspect
import os
import textwrap
from collections.abc import Iterator
from pathlib import Path

import awkward as ak
import hist
import numpy as np
import pytest
import uproot

import branchline

CLASSES = (
    "Access",
    "BatchSettings",
    "Branch",
    "BranchlineError",
    "Cutflow",
    "Dataset",
    "Directory",
    "EventRandom",
    "File",
    "LumiSections",
    "Results",
    "Shared",
    "SubmittedTrain",
    "Systematics",
    "Table",
    "TableFile",
    "TextTable",
    "TrainResult",
    "TrainStatus",
    "Tree",
    "WritableDirectory",
    "WritableFile",
    "WritableTree",
)
FUNCTIONS = ("concatenate", "create", "dask", "forecast", "iterate", "load", "nanoevents", "num_entries", "open")
FUNCTIONS += ("as_TEfficiency", "as_TGraph", "as_THnSparse", "plot", "recreate", "run", "update", "varied", "what_if")
FUNCTIONS += ("event_random", "loaded", "lumi_mask", "convert", "merge", "skim", "slim", "verify", "workspace")
FUNCTIONS += ("cutflows", "datacard", "largest_variations", "yields")
#: Those whose examples read the files of the test, or write others beside them.
READING = ("Access", "Branch", "BranchlineError", "Dataset", "Directory", "File", "Tree")
READING += ("concatenate", "dask", "iterate", "num_entries", "open", "what_if")
READING += ("convert", "merge", "skim", "slim", "verify")
READING += (
    "WritableDirectory",
    "WritableFile",
    "WritableTree",
    "as_TEfficiency",
    "as_TGraph",
    "create",
    "recreate",
    "update",
)
#: What programs call; the other members are properties, and calls between packages.
OF_WRITING = {"keys", "classnames", "update", "mkdir", "mktree", "mkrntuple", "copy_from", "extend", "close", "abandon"}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def docstrings(name: str) -> Iterator[tuple[str, str]]:
    """The docstrings of a class and of its public methods and properties, with their names."""
    kind = getattr(branchline, name)
    yield name, inspect.getdoc(kind) or ""
    for member, value in vars(kind).items():
        if not member.startswith("_") and (callable(value) or isinstance(value, property | classmethod)):
            yield f"{name}.{member}", inspect.getdoc(value) or ""


def test_no_public_class_or_function_is_left_out() -> None:
    """Errors and warnings other than their base need no example: the sentence says when they are raised."""
    public = {name: getattr(branchline, name) for name in branchline.__all__ if not name.startswith("_")}
    classes = {name for name, value in public.items() if inspect.isclass(value) and not issubclass(value, Exception)}
    assert classes | {"BranchlineError"} == set(CLASSES)
    assert {name for name, value in public.items() if inspect.isroutine(value)} == set(FUNCTIONS)


@pytest.mark.parametrize("name", CLASSES + FUNCTIONS)
def test_a_public_class_or_function_names_errors_and_has_an_example(name: str) -> None:
    text = inspect.getdoc(getattr(branchline, name)) or ""
    assert "aise" in text, "it names no error"
    assert "\n    " in text, "it has no example"


@pytest.mark.parametrize("name", CLASSES)
def test_every_public_method_is_described(name: str) -> None:
    assert [member for member, text in docstrings(name) if not text] == []


@pytest.mark.parametrize("name", ["WritableDirectory", "WritableFile", "WritableTree"])
def test_every_method_of_writing_that_is_uproots_has_an_example(name: str) -> None:
    methods = {member: text for member, text in docstrings(name) if member.rpartition(".")[2] in OF_WRITING}
    assert methods
    assert [member for member, text in methods.items() if ">>>" not in text] == []


@pytest.mark.parametrize("name", CLASSES + FUNCTIONS)
def test_examples_are_python(name: str) -> None:
    for _, text in docstrings(name):
        for block in _blocks(text):
            ast.parse(block)


def _blocks(text: str) -> Iterator[str]:
    """The indented examples of a docstring that are not for the prompt."""
    for part in text.split("\n\n"):
        if part.startswith("    ") and ">>>" not in part:
            yield textwrap.dedent(part)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with the files that the examples read."""
    muons = ak.Array([[1.0, 2.0], [], [3.0]])
    (tmp_path / "data").mkdir()
    for name in ("file.root", "data/a.root", "data/b.root"):
        with uproot.recreate(tmp_path / name) as file:
            columns = {"Muon": ak.zip({"pt": ak.values_astype(muons, np.float32), "eta": muons})}
            file.mktree("Events", {name: column.type for name, column in columns.items()})
            file["Events"].extend(columns)
            file["folder/mass"] = hist.Hist.new.Reg(3, 0, 1).Double()
            file["folder/momentum"] = hist.Hist.new.Reg(3, 0, 1).Double()
    before = Path.cwd()
    os.chdir(tmp_path)
    yield tmp_path
    os.chdir(before)


@pytest.mark.parametrize("name", READING)
def test_examples_of_reading_run_and_print_what_they_show(folder: Path, name: str) -> None:
    events = branchline.open(folder / "file.root")
    names = {
        "branchline": branchline,
        "np": np,
        "ak": ak,
        "tree": events["Events"],
        "branch": events["Events/Muon_pt"],
        "folder": events["folder"],
    }
    count = 0
    for member, text in docstrings(name):
        test = doctest.DocTestParser().get_doctest(text, dict(names), member, None, 0)
        # What has no output here gives an array that depends on the version of awkward.
        test.examples = [one for one in test.examples if one.want or not _is_expression(one.source)]
        lines: list[str] = []
        failed, tried = doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(test, out=lines.append)
        count += tried
        assert failed == 0, "".join(lines)
    assert count


def _is_expression(source: str) -> bool:
    return isinstance(ast.parse(source).body[0], ast.Expr)
