"""Trees of many baskets are written in pieces of any size, and their bytes do not depend on the number of cores."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import awkward as ak
import numpy as np
import pytest

import branchline

ENTRIES = 300_000


def columns(count: int) -> dict[str, ak.Array]:
    rng = np.random.default_rng(5)
    lengths = rng.integers(0, 4, count)
    numbers = np.arange(int(lengths.sum()))
    few = count // 20
    return {
        "x": ak.Array(rng.integers(0, 1000, count).astype("f4")),
        "grid": ak.from_numpy(np.arange(4 * count, dtype="i2").reshape(count, 2, 2)),
        "hits": ak.unflatten(numbers.astype("f8"), lengths),
        "small": ak.unflatten(numbers.astype("i1"), lengths),
        "text": ak.Array([f"{number % 1000}" for number in range(few)])[np.arange(count) % few],
        "nested": ak.Array([[[1] * (number % 3)] * (number % 2) for number in range(few)])[np.arange(count) % few],
    }


@pytest.mark.parametrize("kind", ["TTree", "RNTuple"])
@pytest.mark.parametrize("codec", ["lz4:1", None])
@pytest.mark.parametrize("cuts_count", [12, 2])
def test_pieces_of_any_size_become_one_tree(tmp_path: Path, kind: str, codec: str | None, cuts_count: int) -> None:
    given = columns(ENTRIES)
    rng = np.random.default_rng(6)
    cuts = np.sort(rng.integers(0, ENTRIES, cuts_count))
    with branchline.recreate(tmp_path / "a.root", compression=codec) as file:
        make = file.mktree if kind == "TTree" else file.mkrntuple
        tree = make("events", {name: values[:0] for name, values in given.items()})
        for begin, end in zip([0, *cuts], [*cuts, ENTRIES], strict=True):
            tree.extend({name: values[begin:end] for name, values in given.items()})
    read = branchline.open(tmp_path / "a.root")["events"].arrays()
    for name, values in given.items():
        assert ak.array_equal(read[name], values, dtype_exact=False, check_parameters=False, check_regular=False), name


@pytest.mark.parametrize("kind", ["TTree", "RNTuple"])
def test_bytes_do_not_depend_on_the_number_of_cores(tmp_path: Path, kind: str) -> None:
    given = columns(ENTRIES)
    cores = os.sched_getaffinity(0)

    def written(folder: str, allowed: set[int]) -> bytes:
        path = tmp_path / folder / "a.root"
        path.parent.mkdir(exist_ok=True)
        os.sched_setaffinity(0, allowed)
        try:
            with branchline.recreate(path, compression="lz4:1") as file:
                if kind == "TTree":
                    file.mktree("events", given)
                else:
                    file.mkrntuple("events", given)
        finally:
            os.sched_setaffinity(0, cores)
        return path.read_bytes()

    for _ in range(20):
        begin = int(time.time())
        one, all_of_them = written("one", {min(cores)}), written("all", cores)
        if int(time.time()) == begin:  # files hold the second in which they were made
            assert one == all_of_them
            return
    pytest.skip("the machine is too busy to write two files within one second")


def test_a_tree_of_several_clusters_is_read_back(tmp_path: Path) -> None:
    values = np.arange(9_000_000, dtype="f8")
    with branchline.recreate(tmp_path / "a.root", compression=None) as file:
        file.mktree("events", {"x": values, "y": values[::-1]})
    tree = branchline.open(tmp_path / "a.root")["events"]
    read = tree.arrays(["x", "y"], library="np")
    assert np.array_equal(read["x"], values)
    assert np.array_equal(read["y"], values[::-1])


def test_a_tree_to_which_entries_could_not_be_added_is_refused(tmp_path: Path) -> None:
    """The limit on the size of files stands for a full disk, in a process of its own."""
    script = f"""
import resource, signal
import numpy as np
import branchline
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, 3_000_000))
with branchline.recreate({str(tmp_path / "a.root")!r}, compression=None) as file:
    tree = file.mktree("events", {{"x": "float64"}})
    try:
        tree.extend({{"x": np.arange(1_000_000.0)}})
    except branchline.StorageError:
        print("refused")
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=280)
    assert ended.stdout == "refused\n"
    assert "tree events has only 0 entries: adding more entries failed" in ended.stderr
    assert branchline.open(tmp_path / "a.root")["events"].num_entries == 0
