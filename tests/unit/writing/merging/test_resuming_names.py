"""Merges with several outputs that are killed when some of these have their names, and not all: `--resume` goes on."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import uproot
from tests.peers.peers import missing

from branchline.errors import StorageError
from branchline.writing.merging.merge import merge

MERGING = """
import json, sys
from branchline.writing.merging.merge import merge
output, inputs, size = json.loads(sys.argv[1])
merge(inputs, output, max_size=size)
"""
#: Of each output, about.
SIZE_BYTES = 30_000


@pytest.fixture
def inputs(tmp_path: Path) -> list[str]:
    paths = [tmp_path / f"{number}.root" for number in range(6)]
    for number, path in enumerate(paths):
        with uproot.recreate(path, compression=None) as file:
            file["events"] = {"x": np.random.default_rng(number).normal(size=1500)}
    return [str(path) for path in paths]


def killed_at_name(count: int, output: Path, inputs: list[str]) -> None:
    """A merge is killed when it gives the outputs their names, at the one with this number."""
    strace = shutil.which("strace") or missing("strace")
    inject = ["-e", "trace=?link,linkat", "-e", f"inject=?link,linkat:signal=SIGKILL:when={count}"]
    merging = [sys.executable, "-c", MERGING, json.dumps([str(output), inputs, SIZE_BYTES])]
    ended = subprocess.run(
        [str(strace), "-f", "-qq", "-o", "/dev/null", *inject, *merging], check=False, capture_output=True
    )
    assert ended.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL), ended.stderr


@pytest.mark.parametrize("count", [1, 2, 3])
def test_names_that_some_outputs_have_already_are_taken_back(tmp_path: Path, inputs: list[str], count: int) -> None:
    folder = tmp_path / "made"
    folder.mkdir()
    output = folder / "all.root"
    killed_at_name(count, output, inputs)
    named = [path.name for path in folder.iterdir() if not path.name.startswith(".")]
    # The call that kills is made first.
    assert len(named) in (count - 1, count)
    assert count == 3 or not output.exists()
    made = merge(inputs, output, max_size=SIZE_BYTES, resume=True, verify=True)
    assert len(made.paths) == 3
    assert made.notes[0] == "resumed after 6 of 6 files, which had been written already"
    assert sorted(path.name for path in folder.iterdir()) == ["all.root", "all_1.root", "all_2.root"]
    (tmp_path / "whole").mkdir()
    whole = merge(inputs, tmp_path / "whole" / "all.root", max_size=SIZE_BYTES)
    for one, other in zip(made.paths, whole.paths, strict=True):
        assert Path(one).read_bytes() == Path(other).read_bytes()


def test_a_file_of_somebody_else_is_no_output_of_a_merge_that_was_killed(tmp_path: Path, inputs: list[str]) -> None:
    folder = tmp_path / "made"
    folder.mkdir()
    output = folder / "all.root"
    killed_at_name(2, output, inputs)
    (folder / "all_2.root").unlink()
    (folder / "all_2.root").write_text("precious")
    with pytest.raises(StorageError, match=r"all_2\.root: the file already exists"):
        merge(inputs, output, max_size=SIZE_BYTES, resume=True)
    assert (folder / "all_2.root").read_text() == "precious"
    assert not output.exists()
