"""Merging: what is refused, and that nothing is left under the output's name unless it is whole."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import uproot
from tests.command_line import run_command

from branchline.errors import BadFileError, DatasetError, StorageError, UnsupportedBranchError
from branchline.reading.layout.file_layout import inspect_file
from branchline.writing.merging.merge import MergeProgress, merge
from branchline.writing.merging.skim import skim
from branchline.writing.merging.verify import verify


def write(path: Path, **columns: np.ndarray) -> str:
    with uproot.recreate(path) as file:
        file.mktree("events", {name: column.dtype for name, column in columns.items()})
        file["events"].extend(columns)
    return str(path)


def left(folder: Path, *inputs: str) -> list[str]:
    """The other files in a folder of inputs."""
    return sorted(path.name for path in folder.iterdir() if str(path) not in inputs)


def test_files_of_uproot_become_one(tmp_path: Path) -> None:
    inputs = [write(tmp_path / f"{number}.root", x=np.arange(10 * number, 10 * number + 10)) for number in range(3)]
    reports: list[MergeProgress] = []
    made = merge(inputs, tmp_path / "all.root", progress=reports.append)
    assert (made.entries, made.baskets) == (30, 3)
    assert reports[-1] == MergeProgress(3, 3, made.basket_bytes)
    assert uproot.open(tmp_path / "all.root")["events/x"].array().tolist() == list(range(30))
    assert left(tmp_path, *inputs) == ["all.root"]


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ({"x": np.arange(3.0), "y": np.arange(3)}, "leaf x (TLeafD"),
        ({"x": np.arange(3)}, "branch y is missing"),
        ({"x": np.arange(3), "y": np.arange(3), "z": np.arange(3)}, "there is a branch z"),
        ({"y": np.arange(3), "z": np.arange(3)}, "branch x is missing"),
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


def test_histograms_are_added_and_other_objects_kept_as_cycles(tmp_path: Path) -> None:
    inputs = []
    for number in range(3):
        inputs.append(write(tmp_path / f"{number}.root", x=np.arange(3)))
        with uproot.update(inputs[-1]) as file:
            file["counts"] = np.histogram(np.arange(10 + number), bins=5, range=(0, 20))
            file["folder/note"] = f"text {number // 2}"
    made = merge(inputs, tmp_path / "all.root")
    assert (made.entries, made.trees, made.objects) == (9, 1, 3)
    assert made.notes == ("folder/note (TObjString) differs: its 2 versions are kept as cycles",)
    with uproot.open(tmp_path / "all.root") as file:
        expected = sum(np.histogram(np.arange(10 + number), bins=5, range=(0, 20))[0] for number in range(3))
        assert file["counts"].values().tolist() == expected.tolist()
        assert [str(file[f"folder/note;{cycle}"]) for cycle in (1, 2)] == ["text 0", "text 1"]


def test_histograms_that_cannot_be_added_are_versions_of_one_name(tmp_path: Path) -> None:
    inputs = []
    for number in range(4):
        inputs.append(write(tmp_path / f"{number}.root", x=np.arange(3)))
        with uproot.update(inputs[-1]) as file:
            file["counts"] = np.histogram(np.arange(10), bins=5 + number % 2, range=(0, 20))
    made = merge(inputs, tmp_path / "all.root", verify=True)
    said = "counts (TH1D) cannot be summed: it has 6 bins from 0 to 20, not 5 bins from 0 to 20"
    assert made.notes[0] == f"{said}; its 2 versions are kept as cycles"
    assert made.objects == 2
    with uproot.open(tmp_path / "all.root") as file:
        for cycle, bins in ((1, 5), (2, 6)):
            expected = 2 * np.histogram(np.arange(10), bins=bins, range=(0, 20))[0]
            assert file[f"counts;{cycle}"].values().tolist() == expected.tolist()
    assert verify(tmp_path / "all.root", inputs).is_same
    assert not verify(tmp_path / "all.root", inputs[:3]).is_same
    made = merge(inputs, tmp_path / "all.root", tree="events", force=True)
    assert (made.entries, made.objects) == (12, 0)


def test_bad_files_are_left_out_and_listed(tmp_path: Path) -> None:
    inputs = [write(tmp_path / f"{number}.root", x=np.arange(10 * number, 10 * number + 10)) for number in range(4)]
    content = bytearray(Path(inputs[1]).read_bytes())
    seek = int(uproot.open(inputs[1])["events/x"].member("fBasketSeek")[0])
    content[seek : seek + 60] = b"\xff" * 60
    Path(inputs[1]).write_bytes(content)
    Path(inputs[0]).write_bytes(b"")
    inputs.append(write(tmp_path / "other.root", y=np.arange(3)))
    made = merge(inputs, tmp_path / "all.root", skip_bad_files=True)
    assert [Path(file.path).name for file in made.skipped] == ["0.root", "1.root", "other.root"]
    assert "branch x: basket 0" in made.skipped[1].reason
    assert uproot.open(tmp_path / "all.root")["events/x"].array().tolist() == list(range(20, 40))
    with pytest.raises(BadFileError, match="none of the inputs"):
        merge(inputs[:2], tmp_path / "none.root", skip_bad_files=True)
    run = run_command(["merge", *inputs, "-o", str(tmp_path / "cli.root"), "--skip-bad-files"])
    assert run.exit_code == 3
    assert "skipped" in run.stderr
    assert "other.root" in run.stderr


def test_a_file_with_damaged_streamer_infos_is_named_and_can_be_left_out(tmp_path: Path) -> None:
    inputs = [str(tmp_path / f"{name}.root") for name in "ab"]
    for path in inputs:
        with uproot.recreate(path, compression=None) as file:
            file.mktree("events", {"x": np.int64})
            file["events"].extend({"x": np.arange(3)})
    content = bytearray(Path(inputs[1]).read_bytes())
    start, size = (int.from_bytes(content[at : at + 4], "big") for at in (37, 41))
    skipped_count = 0
    for place in range(start + 70, start + size, max(1, size // 100)):
        content[place] ^= 0x81
        Path(inputs[1]).write_bytes(content)
        content[place] ^= 0x81
        try:
            made = merge(inputs, tmp_path / "all.root", force=True, sync=False, skip_bad_files=True)
        except UnsupportedBranchError:
            continue  # a class of another name
        assert [skipped.path for skipped in made.skipped] in ([], [inputs[1]]), place
        skipped_count += len(made.skipped)
    assert skipped_count > 5


def test_a_largest_size_makes_several_files_that_hold_all(tmp_path: Path) -> None:
    numbers = np.random.default_rng(5).random(4000)
    inputs = [write(tmp_path / f"{number}.root", x=numbers + number) for number in range(5)]
    made = merge(inputs, tmp_path / "all.root", max_size=80_000)
    assert [Path(path).name for path in made.paths] == ["all.root", "all_1.root", "all_2.root"]
    assert all(Path(path).stat().st_size <= 80_000 for path in made.paths)
    values = np.concatenate([uproot.open(path)["events/x"].array(library="np") for path in made.paths])
    assert np.array_equal(values, np.concatenate([numbers + number for number in range(5)]))
    Path(tmp_path / "all.root").unlink()
    with pytest.raises(StorageError, match=r"all_1\.root.*already"):
        merge(inputs, tmp_path / "all.root", max_size=80_000)
    assert not (tmp_path / "all.root").exists()


def test_outputs_that_one_input_makes_larger_than_the_largest_are_told(tmp_path: Path) -> None:
    inputs = [write(tmp_path / f"{number}.root", x=np.random.default_rng(number).random(4000)) for number in range(2)]
    made = merge(inputs, tmp_path / "all.root", max_size=10_000)
    assert len(made.notes) == len(made.paths) == 2
    assert [note.split(",")[0] for note in made.notes] == [f"{path} is larger than 10.0 kB" for path in made.paths]


def test_a_skim_keeps_what_is_beside_its_only_tree(tmp_path: Path) -> None:
    inputs = [write(tmp_path / f"{number}.root", x=np.arange(10)) for number in range(2)]
    for path in inputs:
        with uproot.update(path) as file:
            file["folder/sums"] = np.histogram([1, 2], bins=3, range=(0, 3))
    made = skim(inputs, tmp_path / "all.root", where="x > 7", verify=True)
    assert made.entries == 4
    with uproot.open(tmp_path / "all.root") as file:
        assert file["events/x"].array().tolist() == [8, 9, 8, 9]
        assert file["folder/sums"].values().tolist() == [0, 2, 2]
    skim(inputs, tmp_path / "tree.root", where="x > 7", only_tree=True)
    assert uproot.open(tmp_path / "tree.root").keys() == ["events;1"]


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
    with pytest.raises(StorageError, match="cannot write") as caught:
        merge([path], tmp_path / "missing" / "all.root")
    assert isinstance(caught.value.__cause__, FileNotFoundError)


# No file may become larger than 40 kB: a write fails as on a full disk, or ends the process in the middle of it.
SMALL_DISK = """
import resource, signal, sys
from branchline.writing.merging.merge import merge
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
    with pytest.raises(DatasetError, match="the inputs name different trees: events, other"):
        merge([f"{path}:events", f"{path}:other"], tmp_path / "all.root")


def test_the_command_says_what_it_made_or_what_is_wrong(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{name}.root", x=np.arange(3)) for name in "ab"]
    output = tmp_path / "all.root"
    done = run_command(["merge", *paths, "-o", str(output)])
    assert done.exit_code == 0, done.output
    assert "6 entries of 2 files, 2 baskets" in done.output
    failed = run_command(["merge", str(tmp_path / "nothing.root"), "-o", str(output), "--force"])
    assert failed.exit_code == 1
    assert uproot.open(output)["events"].num_entries == 6


def test_baskets_too_large_to_be_taken_at_once_come_to_clusters_of_the_wanted_size(tmp_path: Path) -> None:
    with uproot.recreate(tmp_path / "one.root", compression=uproot.ZSTD(1)) as file:
        random = np.random.default_rng(1)
        file.mktree("events", dict.fromkeys("xy", "f8"))
        file["events"].extend({name: random.normal(size=100_000) for name in "xy"})
    # A sixteenth of the memory is taken at a time: one basket, of each branch, is more.
    merge([tmp_path / "one.root"], tmp_path / "cut.root", cluster_bytes="400 kB", memory_limit="16 MiB")
    layout = inspect_file(f"{tmp_path / 'cut.root'}:events")
    assert layout.clusters.count == 4
    assert verify(tmp_path / "cut.root", [tmp_path / "one.root"]).is_same
