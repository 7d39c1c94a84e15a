"""Merging: what is refused, and that nothing is left under the output's name unless it is whole."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import uproot
from typer.testing import CliRunner

from branchline.cli.app import app
from branchline.errors import BadFileError, DatasetError, StorageError, UnsupportedBranchError
from branchline.layout import MergeProgress, merge


def write(path: Path, **columns: np.ndarray) -> str:
    with uproot.recreate(path) as file:
        file.mktree("events", {name: column.dtype for name, column in columns.items()})
        file["events"].extend(columns)
    return str(path)


def left(folder: Path, *inputs: str) -> list[str]:
    """What lies in a folder beside the inputs."""
    return sorted(path.name for path in folder.iterdir() if str(path) not in inputs)


def test_files_of_uproot_become_one(tmp_path: Path) -> None:
    inputs = [write(tmp_path / f"{number}.root", x=np.arange(10 * number, 10 * number + 10)) for number in range(3)]
    told: list[MergeProgress] = []
    made = merge(inputs, tmp_path / "all.root", progress=told.append)
    assert (made.entries, made.baskets) == (30, 3)
    assert told[-1] == MergeProgress(3, 3, made.basket_bytes)
    assert uproot.open(tmp_path / "all.root")["events/x"].array().tolist() == list(range(30))
    assert left(tmp_path, *inputs) == ["all.root"]


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ({"x": np.arange(3.0), "y": np.arange(3)}, "leaf x (TLeafD"),
        ({"x": np.arange(3)}, "branch y is missing"),
        ({"x": np.arange(3), "y": np.arange(3), "z": np.arange(3)}, "there is a branch z"),
        ({"y": np.arange(3), "x": np.arange(3)}, "branch y stands where x is"),
    ],
)
def test_another_schema_is_refused_with_file_and_branch(
    tmp_path: Path, second: dict[str, np.ndarray], said: str
) -> None:
    inputs = [write(tmp_path / "a.root", x=np.arange(3), y=np.arange(3)), write(tmp_path / "b.root", **second)]
    with pytest.raises(UnsupportedBranchError, match=r"b\.root") as raised:
        merge(inputs, tmp_path / "all.root")
    assert said in str(raised.value)
    assert left(tmp_path, *inputs) == []


def test_other_objects_are_refused_by_name(tmp_path: Path) -> None:
    path = write(tmp_path / "a.root", x=np.arange(3))
    with uproot.update(path) as file:
        file["counts"] = np.histogram(np.arange(10))
    with pytest.raises(UnsupportedBranchError, match=r"beside the tree events it holds counts \(TH1D\)"):
        merge([path], tmp_path / "all.root", tree="events")


def test_a_damaged_basket_ends_the_merge(tmp_path: Path) -> None:
    inputs = [write(tmp_path / f"{name}.root", x=np.arange(1000)) for name in "ab"]
    path = Path(inputs[1])
    seek = int(uproot.open(path)["events/x"].member("fBasketSeek")[0])
    content = bytearray(path.read_bytes())
    content[seek : seek + 60] = b"\xff" * 60
    path.write_bytes(content)
    with pytest.raises(BadFileError, match=r"b\.root.*branch x: basket 0"):
        merge(inputs, tmp_path / "all.root")
    assert left(tmp_path, *inputs) == []


def test_a_file_that_is_there_is_only_replaced_by_force(tmp_path: Path) -> None:
    path, output = write(tmp_path / "a.root", x=np.arange(3)), tmp_path / "all.root"
    output.write_text("precious")
    with pytest.raises(StorageError, match="already"):
        merge([path], output)
    assert output.read_text() == "precious"
    merge([path], output, force=True)
    assert uproot.open(output)["events"].num_entries == 3
    with pytest.raises(StorageError, match="one of the inputs"):
        merge([path], path, force=True)


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    path = write(tmp_path / "a.root", x=np.arange(3))
    with pytest.raises(StorageError, match="cannot write"):
        merge([path], tmp_path / "missing" / "all.root")


# No file may become larger than 40 kB: a write fails as on a full disk, or ends the process in the middle of it.
SMALL_DISK = """
import resource, signal, sys
from branchline.layout import merge
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
if sys.argv[1] == "killed":
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
merge(sys.argv[3:], sys.argv[2])
"""


@pytest.mark.parametrize("how", ["full", "killed"])
def test_a_full_disk_or_a_kill_in_the_middle_leaves_nothing_under_the_name(tmp_path: Path, how: str) -> None:
    numbers = np.random.default_rng(1).random(5000)
    inputs = [write(tmp_path / f"{name}.root", x=numbers) for name in "abc"]
    output = tmp_path / "all.root"
    ended = subprocess.run(
        [sys.executable, "-c", SMALL_DISK, how, output, *inputs], check=False, capture_output=True, text=True
    )
    assert not output.exists()
    if how == "full":
        assert "StorageError" in ended.stderr
        assert "cannot write" in ended.stderr
        assert left(tmp_path, *inputs) == []
    else:
        assert ended.returncode == -signal.SIGXFSZ
        merge(inputs, output)
        assert uproot.open(output)["events"].num_entries == 15000


def test_an_exception_of_who_watches_stops_the_merge(tmp_path: Path) -> None:
    inputs = [write(tmp_path / f"{number}.root", x=np.arange(10)) for number in range(30)]

    def stop(_: MergeProgress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        merge(inputs, tmp_path / "all.root", progress=stop)
    assert [name for name in left(tmp_path, *inputs) if name.endswith(".part")] == []


def test_ranges_of_entries_and_several_trees_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.root", x=np.arange(3))
    with pytest.raises(DatasetError, match="several trees"):
        merge([f"{path}:events", f"{path}:other"], tmp_path / "all.root")


def test_the_command_says_what_it_made_or_what_is_wrong(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{name}.root", x=np.arange(3)) for name in "ab"]
    output = tmp_path / "all.root"
    done = CliRunner().invoke(app, ["merge", *paths, "-o", str(output)])
    assert done.exit_code == 0, done.output
    assert "6 entries of 2 files, 2 baskets" in done.output
    failed = CliRunner().invoke(app, ["merge", str(tmp_path / "nothing.root"), "-o", str(output), "--force"])
    assert failed.exit_code == 1
    assert uproot.open(output)["events"].num_entries == 6
