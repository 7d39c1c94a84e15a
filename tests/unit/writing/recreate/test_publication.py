"""A file that is being written is valid at all times, and has everything that was written to it."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import uproot

import branchline
from branchline.errors import OptionError, StorageError

WORDS = "some text that compresses badly "


def _entries(path: Path, name: str = "t") -> int:
    """Entries of a tree, whose values uproot and Branchline read alike."""
    with uproot.open(path) as file:
        read = file[name]["x"].array(library="np")
    assert np.array_equal(read, np.asarray(branchline.open(path)[name]["x"].array()))
    return len(read)


@pytest.mark.parametrize("how", ["recreate", "create", "update"])
def test_each_object_is_in_the_file_as_soon_as_it_is_written(tmp_path: Path, how: str) -> None:
    path = tmp_path / "a.root"
    if how == "update":
        with branchline.recreate(path) as file:
            file["first"] = "text"
    file = getattr(branchline, how)(path)
    steps: list[tuple[str, Callable[[], object]]] = [
        ("text", lambda: file.__setitem__("text", "one")),
        ("d/h", lambda: file.__setitem__("d/h", np.histogram([1, 2, 2]))),
        ("e", lambda: file.mkdir("e")),
        ("t", lambda: file.__setitem__("t", {"x": np.arange(5)})),
        ("made", lambda: file.mktree("made", {"x": np.arange(5)})),
        ("d/n", lambda: file.mkrntuple("d/n", {"x": np.arange(5)})),
        ("d/e/copy", lambda: file.__setitem__("d/e/copy", branchline.open(path)["t"])),
        ("d/text", lambda: file["d"].copy_from(str(path), filter_name="text")),
    ]
    for name, write in steps:
        write()
        keys = set(uproot.open(path).keys(cycle=False))
        assert keys == set(branchline.open(path).keys(cycle=False)) == set(file.keys(cycle=False))
        assert name in keys
    assert _entries(path) == _entries(path, "made") == _entries(path, "d/n") == _entries(path, "d/e/copy") == 5
    del file["made"]
    assert "made" not in uproot.open(path)
    file["text"] = "two"
    assert uproot.open(path)["text"] == branchline.open(path)["text"] == file["text"] == "two"
    file.close()
    assert uproot.open(path).keys() == branchline.open(path).keys()


def test_an_existing_file_is_replaced_when_the_first_object_is_written(tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    path.write_bytes(b"before")
    with branchline.recreate(path) as file:
        with pytest.raises(OptionError):
            file["t"] = {"x": object()}
        assert path.read_bytes() == b"before"
        tree = file.mktree("t", {"x": "i8"})
        assert _entries(path) == 0
        tree.extend({"x": np.arange(3)})
        assert _entries(path) == 3
    assert [one.name for one in tmp_path.iterdir()] == ["a.root"]


def test_an_error_keeps_what_was_written_before(tmp_path: Path) -> None:
    path = tmp_path / "a.root"

    def fill() -> None:
        with branchline.recreate(path) as file:
            file["text"] = "one"
            tree = file.mktree("t", {"x": "i8"})
            for step in range(101):
                tree.extend({"x": [step if step < 100 else "text"]})

    with pytest.raises(OptionError):
        fill()
    assert _entries(path) == 100
    assert uproot.open(path)["text"] == "one"


@pytest.mark.parametrize("kind", ["mktree", "mkrntuple"])
@pytest.mark.parametrize("step", [1, 1000, 300_000])
def test_a_tree_that_grows_is_published_and_the_file_stays_small(tmp_path: Path, kind: str, step: int) -> None:
    path, count = tmp_path / "a.root", 12 if step > 1000 else 300
    values = np.arange(count * step, dtype="i8")
    with branchline.recreate(path) as file:
        tree = getattr(file, kind)("t", {"x": "i8"})
        seen = []
        for begin in range(0, len(values), step):
            tree.extend({"x": values[begin : begin + step]})
            seen.append(branchline.open(path)["t"].num_entries)
            assert seen[-1] <= tree.num_entries
        assert seen[:2] == [step, 2 * step]
        assert seen == sorted(seen)
        # At any time more than half of the entries are there, and all are when the file is closed.
        assert all(2 * entries > (number + 1) * step for number, entries in enumerate(seen))
    assert _entries(path) == len(values)
    with branchline.recreate(tmp_path / "at_once.root") as file:
        getattr(file, kind)("t", {"x": values})
    at_once = (tmp_path / "at_once.root").stat().st_size
    assert path.stat().st_size <= 3 * at_once + 20_000


def test_the_cost_of_an_object_does_not_grow_with_their_number(tmp_path: Path) -> None:
    def written_bytes(count: int) -> int:
        before = _written()
        with branchline.recreate(tmp_path / f"{count}.root") as file:
            for number in range(count):
                file[f"d{number % 3}/text{number}"] = WORDS
        return _written() - before

    written_bytes(10)  # what is only written once
    few, many = written_bytes(200), written_bytes(2000)
    assert many < 15 * few
    assert len(uproot.open(tmp_path / "2000.root").keys()) == 2003
    assert (tmp_path / "2000.root").stat().st_size < 12 * (tmp_path / "200.root").stat().st_size


def _written() -> int:
    """Bytes that this process has written so far."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("wchar")))


def test_names_that_come_again_have_the_newest_first(tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    with branchline.recreate(path) as file:
        for number in range(20):
            file[f"d/{number % 3}"] = str(number)
            assert uproot.open(path)[f"d/{number % 3}"] == str(number)
    assert [uproot.open(path)[f"d/{number}"] for number in range(3)] == ["18", "19", "17"]
    assert len(uproot.open(path)["d"].keys()) == 20


KILLED = """
import sys
import numpy as np
import branchline
with branchline.recreate(sys.argv[1]) as file:
    trees = [file.mktree("t", {"x": "i8"}), file.mkrntuple("n", {"x": "i8"})]
    print("begun", flush=True)
    for number in range(100_000):
        file[f"d{number % 7}/text{number}"] = str(number)
        for tree in trees:
            tree.extend({"x": np.arange(1000 * number, 1000 * (number + 1))})
"""


@pytest.mark.parametrize("delay", [0.02, 0.05, 0.1, 0.2, 0.4, 0.8])
def test_a_killed_program_leaves_a_valid_file(tmp_path: Path, delay: float) -> None:
    path = tmp_path / "a.root"
    with subprocess.Popen([sys.executable, "-c", KILLED, path], stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        program.stdout.readline()
        with pytest.raises(subprocess.TimeoutExpired):
            program.wait(delay)
        program.send_signal(signal.SIGKILL)
    if not path.exists():  # nothing was written yet
        return
    read = branchline.open(path)
    numbers = sorted(int(name.rpartition("text")[2]) for name in read.keys(cycle=False) if "text" in name)
    assert numbers == list(range(len(numbers)))
    with uproot.open(path) as file:
        assert all(file[f"d{number % 7}/text{number}"] == str(number) for number in numbers[-20:])
        assert set(file.keys()) == set(read.keys())
    for name in ("t", "n"):
        if name in read:
            assert _entries(path, name) % 1000 == 0
    # The temporary file of a program that was killed before is removed.
    with branchline.update(path) as file:
        file["more"] = "text"
    assert uproot.open(path)["more"] == "text"
    assert [one.name for one in tmp_path.iterdir()] == ["a.root"]


FULL = """
import resource, signal, sys
import numpy as np
import branchline
from branchline.errors import StorageError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path, limit = sys.argv[1], int(sys.argv[2])
random = np.random.default_rng(1)
refused = []
try:
    with branchline.recreate(path, compression=None) as file:
        tree, ntuple = file.mktree("t", {"x": "i8"}), file.mkrntuple("n", {"x": "i8"})
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        for number in range(60):
            for what, write in (
                (f"text{number}", lambda: file.__setitem__(f"text{number}", random.bytes(300).hex())),
                ("t", lambda: tree.extend({"x": np.arange(500 * number, 500 * (number + 1))})),
                ("n", lambda: ntuple.extend({"x": np.arange(500 * number, 500 * (number + 1))})),
            ):
                try:
                    write()
                except StorageError:
                    refused.append(what)
            if number == 50:
                resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
except StorageError as error:
    print("close:", error)
print("refused:", len(refused))
print("accepted: t", tree.num_entries)
print("accepted: n", ntuple.num_entries)
"""


@pytest.mark.parametrize("limit", [1000, 3000, 10_000, 30_000, 100_000, 200_000])
def test_a_full_disk_leaves_a_valid_file_to_which_more_is_added_when_there_is_room(tmp_path: Path, limit: int) -> None:
    path = tmp_path / "a.root"
    program = subprocess.run(
        [sys.executable, "-c", FULL, path, str(limit)], capture_output=True, text=True, check=True, timeout=280
    )
    assert "refused: 0" not in program.stdout
    with uproot.open(path) as file:
        texts = [name for name in file.keys(cycle=False) if name.startswith("text")]
        assert {f"text{number}" for number in range(51, 60)} <= set(texts)
        assert all(len(file[name]) == 600 for name in texts)
        trees = [name for name in file.keys(cycle=False) if name in "tn"]
    for name in trees:
        entries = _entries(path, name)
        is_complete = f"accepted: {name} {entries}\n" in program.stdout
        assert is_complete or f"tree {name} has only {entries} entries" in program.stdout


def test_a_file_that_is_not_closed_is_complete_when_the_interpreter_exits(tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    code = """
import sys
import numpy as np
import branchline
tree = branchline.recreate(sys.argv[1]).mktree("t", {"x": "i8"})
for step in range(1000):
    tree.extend({"x": [step]})
"""
    program = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert program.stderr == ""
    assert _entries(path) == 1000


def test_a_file_without_a_name_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    file = branchline.recreate(path)
    tree = file.mktree("t", {"x": "i8"})
    for step in range(1000):
        tree.extend({"x": [step]})
    del file
    assert branchline.open(path)["t"].num_entries < 1000
    del tree
    gc.collect()
    assert _entries(path) == 1000


def test_a_cell_of_a_notebook_may_be_run_again(tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    first = branchline.recreate(path)
    first["text"] = "one"
    second = branchline.recreate(path)
    assert first.closed
    with pytest.raises(StorageError, match="closed"):
        first["text"] = "two"
    second["text"] = "three"
    third = branchline.update(path)
    assert second.closed
    third["more"] = "four"
    third.close()
    assert uproot.open(path).keys() == ["text;1", "more;1"]


def test_a_file_that_another_process_writes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    with branchline.recreate(path) as file:
        file["text"] = "one"
        for call in ("branchline.recreate(path)", "branchline.update(path)"):
            code = f"import sys, branchline; path = sys.argv[1]; {call}['text'] = 'other'"
            program = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=False)
            assert "another program is writing this file" in program.stderr
        file["more"] = "two"
    assert uproot.open(path).keys() == ["text;1", "more;1"]


@pytest.mark.parametrize("is_published", [False, True])
def test_a_forked_process_leaves_the_file_alone(tmp_path: Path, is_published: bool) -> None:
    path = tmp_path / "a.root"
    code = """
import os, sys
import branchline
file = branchline.recreate(sys.argv[1])
if sys.argv[2] == "True":
    file["text"] = "one"
tree = file.mktree("t", {"x": "i8"})
ends, begins = os.pipe()
if os.fork() == 0:
    with file:
        os.read(ends, 1)
        sys.exit()
tree.extend({"x": range(3)})
file.close()
with branchline.update(sys.argv[1]) as again:  # while the child has the first file open
    again["more"] = "two"
os.write(begins, b"x")
os.wait()
"""
    subprocess.run([sys.executable, "-c", code, path, str(is_published)], check=True, timeout=280)
    assert _entries(path) == 3
    assert uproot.open(path)["more"] == "two"


def test_a_file_that_is_updated_is_replaced_by_the_first_addition(tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    with branchline.recreate(path) as file:
        file["d/text"] = "one"
        file.mktree("t", {"x": np.arange(10)})
    before = path.read_bytes()
    with branchline.update(path) as file:
        assert file["d/text"] == "one"
        assert path.read_bytes() == before
        file["d/e/text"] = "two"
        assert path.read_bytes()[: len(before)] != before
        assert file["d/text"] == "one"
        assert np.array_equal(file["t"]["x"].array(), np.arange(10))
        assert set(uproot.open(path).keys()) == {"d;1", "d/text;1", "t;1", "d/e;1", "d/e/text;1"}
        for number in range(100):
            file[f"d/{number}"] = WORDS
    assert len(uproot.open(path)["d"].keys()) == 103
    assert _entries(path) == 10
