"""What is asked of a reader is checked once, when it is asked, and travels unchanged."""

from __future__ import annotations

import dataclasses
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.reading.trees.conftest import Sample

import branchline
from branchline.reading.request import ChunkLength, ReadRequest, StreamRequest
from branchline.reading.trees.tree_steps import Report


def test_a_request_holds_what_was_asked_for_in_one_form() -> None:
    request = ReadRequest.of(expressions="x", library="numpy", step_size=10, memory_limit="2 MB", workers=None)
    assert (request.expressions, request.library, request.workers) == (("x",), "np", 1)
    assert (request.step, request.memory_limit_bytes) == (ChunkLength(100_000_000, 10), 2_000_000)
    assert ReadRequest.of(expressions=(name for name in "ab")).expressions == ("a", "b")
    assert ReadRequest.of().is_everything
    assert not ReadRequest.of(aliases={"a": "b"}).is_everything
    with pytest.raises(dataclasses.FrozenInstanceError):
        request.cut = "x > 1"  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(request)) == request


@pytest.mark.parametrize(
    "arguments",
    [
        {"expressions": 1},
        {"expressions": ["x", 1]},
        {"expressions": {"x": "float"}},
        {"cut": 1},
        {"aliases": {"x": 1}},
        {"library": "root"},
        {"how": "zip", "library": "np"},
        {"workers": 0},
        {"step_size": 0},
        {"memory_limit": "0 MB"},
        {"access": "quick"},
    ],
)
def test_what_is_impossible_is_refused_when_it_is_asked(arguments: dict[str, object]) -> None:
    with pytest.raises(branchline.BranchlineError):
        ReadRequest.of(**arguments)


def test_a_stream_is_asked_for_what_the_request_says() -> None:
    request = ReadRequest.of(step_size=7, workers=3, memory_limit=10**8, skip_bad_files=True)
    stream = request.stream(["a", "b"])
    assert stream == StreamRequest(
        branches=("a", "b"), step=ChunkLength(10**8, 7), threads=3, memory_limit_bytes=10**8, skip_bad_files=True
    )
    assert branchline.BadFileError in stream.skippable
    assert branchline.NoSuchKeyError not in stream.skippable


def test_reports_travel_between_processes_and_open_their_files(sample: Sample) -> None:
    for steps in (
        branchline.iterate(sample.location, "number", step_size=40, report=True),
        branchline.open(sample.location).iterate("number", step_size=40, report=True),
    ):
        reports = [pickle.loads(pickle.dumps(report)) for _, report in steps]
        assert [(one.start, one.stop) for one in reports] == [(0, 40), (40, 80), (80, 100)]
        assert all(isinstance(one, Report) and one.tree.entries_count == 100 for one in reports)


SCRIPT = """
import importlib.abc, sys

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in sys.argv[2:]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
import branchline
"""


@pytest.mark.parametrize(
    ("package", "line", "extra"),
    [
        ("hist", "branchline.open(sys.argv[1])['run/histogram']", "histograms"),
        ("boost_histogram", "branchline.open(sys.argv[1])['run/histogram']", "histograms"),
    ],
)
def test_a_package_that_is_missing_is_named_with_its_extra(tmp_path: Path, package: str, line: str, extra: str) -> None:
    import numpy as np
    import uproot

    with uproot.recreate(tmp_path / "h.root") as file:
        file["run/histogram"] = np.histogram([1.0, 2.0])
        file.mktree("t", {"x": "int32"}).extend({"x": np.arange(3, dtype="i4")})
    script = f"{SCRIPT}\nprint(branchline.open(sys.argv[1])['t/x'].array().tolist())\n{line}"
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "h.root"), package], capture_output=True, text=True, check=False
    )
    assert done.stdout == "[0, 1, 2]\n"
    assert f"{package}, which is not installed" in done.stderr.splitlines()[-1]
    assert f"branchline[{extra}]" in done.stderr.splitlines()[-1]


def test_opening_a_tree_imports_no_packages_of_histograms(sample: Sample) -> None:
    script = """
import sys, branchline
branchline.open(sys.argv[1]).arrays()
heavy = {"hist", "boost_histogram", "pandas", "matplotlib", "scipy", "coffea", "uproot", "psutil"}
print(sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", script, sample.location], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
