"""Wrong bytes give values or a BranchlineError: never a crash, never a hang, never more memory than there is to fill.

The engine meets many more of them in crates/engine/tests/hostile; here they go through chunks and awkward arrays.

BRANCHLINE_SEED repeats a run, BRANCHLINE_CASES makes it longer.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot
from tests.peers import root_files
from tests.peers.peers import import_root
from tests.unit.reading.trees.conftest import CODECS, write_sample

import branchline

CASES = int(os.environ.get("BRANCHLINE_CASES", "400"))
ROOT_TREES = 3


def seed_of_this_run() -> int:
    given = os.environ.get("BRANCHLINE_SEED")
    return int(given) if given else int(time.time())


@pytest.fixture
def originals(tmp_path: Path) -> Path:
    """A folder with files of each codec and each kind of column, by uproot and, where it is installed, by ROOT."""
    folder = tmp_path / "originals"
    folder.mkdir()
    for name, codec in CODECS.items():
        write_sample(folder / f"{name}.root", codec, (20, 15))
    root = import_root()
    for seed in range(ROOT_TREES if root is not None else 0):
        made, layout, entries = root_files.random_tree(seed, 0)
        layout.mixed_codecs, layout.basket_bytes = False, 1000
        root_files.write(root, folder / f"root{seed}.root", made, layout, min(entries, 40))
    return folder


def test_wrong_bytes_never_do_harm(originals: Path, repository: Path) -> None:
    seed = seed_of_this_run()
    print(f"BRANCHLINE_SEED={seed}")
    command = [sys.executable, "-m", "tests.unit.reading.trees.mutations", originals, seed, 0, CASES]
    ended = subprocess.run(
        [str(one) for one in command], cwd=repository, capture_output=True, text=True, timeout=600, check=False
    )
    last_case = ended.stderr[ended.stderr.rfind("\ncase") :][:4000]
    assert ended.returncode == 0, f"BRANCHLINE_SEED={seed}: {last_case}"
    assert "values" in ended.stdout
    assert "BadFileError" in ended.stdout


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """A file with two directories and a tree."""
    path = tmp_path / "folders.root"
    with uproot.recreate(path) as file:
        for name in ("first", "second"):
            file.mktree(f"{name}/events", {"x": "int32"}).extend({"x": np.arange(4, dtype="i4")})
    return path


def test_directories_that_list_each_other_end(folders: Path) -> None:
    content = bytearray(folders.read_bytes())
    with uproot.open(folders) as file:
        top = file.file.root_directory
        for name in ("first", "second"):
            at = top.key(name).fSeekKey + top.key(name).fKeylen
            keys_at = at + 2 + 4 + 4 + 4 + 4 + (16 if struct.unpack_from(">h", content, at)[0] > 1000 else 8)
            is_big = struct.unpack_from(">h", content, at)[0] > 1000
            assert struct.unpack_from(">q" if is_big else ">i", content, keys_at)[0] == file[name].fSeekKeys
            struct.pack_into(">q" if is_big else ">i", content, keys_at, top.fSeekKeys)
    folders.write_bytes(content)
    with pytest.raises(branchline.BadFileError, match="directories"):
        branchline.open(folders).keys()


def test_a_count_of_baskets_that_lies_is_not_counted_up_to(tmp_path: Path) -> None:
    made = write_sample(tmp_path / "plain.root", None, (10, 10))
    content = bytearray(made.path.read_bytes())
    with uproot.open(made.location) as tree:
        branch = tree["energy"]
        # fWriteBasket, fEntryNumber of 64 bits, as TBranch has them.
        pattern = struct.pack(">iq", branch.member("fWriteBasket"), branch.member("fEntryNumber"))
    assert pattern in content
    for at in (at for at in range(len(content)) if content[at : at + len(pattern)] == pattern):
        struct.pack_into(">i", content, at, 2**31 - 1)
    made.path.write_bytes(content)
    started_s = time.process_time()
    tree = branchline.open(made.location)
    assert tree["energy"].array().tolist() == made.values.energy.tolist()
    assert time.process_time() - started_s < 5, "opening takes as long as the file says"


@pytest.mark.parametrize("length", [2**31 - 1, 2**28])
def test_arrays_longer_than_any_entry_are_refused_alone(tmp_path: Path, length: int) -> None:
    made = write_sample(tmp_path / "plain.root", None, (10,))
    content = bytearray(made.path.read_bytes())
    with uproot.open(made.location) as tree:
        leaf: Any = tree["energy"].member("fLeaves")[0]
    name = leaf.member("fName").encode()
    title = leaf.member("fTitle").encode()
    start = content.index(bytes([len(name)]) + name + bytes([len(title)]) + title, content.index(b"TLeafD"))
    struct.pack_into(">i", content, start + 2 + len(name) + len(title), length)
    made.path.write_bytes(content)
    tree = branchline.open(made.location)
    with pytest.raises(branchline.BadFileError, match="maximum entry size"):
        tree["energy"].array()
    assert tree["number"].array().tolist() == made.values.number.tolist()
