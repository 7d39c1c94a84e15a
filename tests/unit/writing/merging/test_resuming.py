"""Merges that are killed and resumed: the output is that of a merge that nobody disturbed, byte by byte."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot
from tests.command_line import run_command
from tests.sampled import long_but

from branchline.errors import BadFileError, BranchlineError, OptionError
from branchline.writing.merging import merge as merging
from branchline.writing.merging.convert import convert
from branchline.writing.merging.merge import MergeResult, merge
from branchline.writing.merging.skim import skim
from branchline.writing.merging.verify import verify

FILES = 12
# The journal is written after each input. No file may become larger than so many bytes: the write that would
# make it larger ends the process in its middle.
KILLED = """
import json, resource, signal, sys
from branchline.writing.merging import merge as merging
from branchline.writing.merging.merge import merge
from branchline.writing.merging.skim import skim
size, output, options, inputs = json.loads(sys.argv[1])
merging.MERGE_JOURNAL_BYTES = 0
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
(skim if "where" in options else merge)(inputs, output, **options)
"""
# So slow that progress is reported in time: it is killed when so many inputs are done, some of them by a merge before.
WATCHED = """
import json, os, signal, sys
from branchline.reading.access import Access
from branchline.writing.merging import merge as merging
from branchline.writing.merging.merge import merge
files_done, output, options, inputs = json.loads(sys.argv[1])
merging.MERGE_JOURNAL_BYTES = 0
def kill(now):
    if now.files_done >= files_done:
        os.kill(os.getpid(), signal.SIGKILL)
merge(inputs, output, access=Access(throttle="requests=60/s"), progress=kill, **options)
"""


def write(path: Path, seed: int) -> str:
    """A file with two trees, one of them in a directory, and objects that are added up or copied."""
    numbers = np.random.default_rng(seed).normal(size=1000)
    with uproot.recreate(path) as file:
        for name in ("events", "deep/er/small"):
            file.mktree(name, {"x": "f8", "n": "i4"})
            for part in np.split(numbers, 4):
                file[name].extend({"x": part, "n": np.arange(len(part), dtype="i4") + seed})
        file["deep/counts"] = np.histogram(numbers, bins=10, range=(-3, 3))
        file["note"] = f"version {seed % 3}"
    return str(path)


@pytest.fixture
def inputs(tmp_path: Path) -> list[str]:
    return [write(tmp_path / f"{number}.root", number) for number in range(FILES)]


def undisturbed(folder: Path, inputs: list[str], **options: Any) -> MergeResult:
    (folder / "whole").mkdir()
    return merge(inputs, folder / "whole" / "all.root", **options)


def killed(size: int, output: Path, inputs: list[str], **options: Any) -> None:
    arguments = json.dumps([size, os.fspath(output), options, inputs])
    ended = subprocess.run([sys.executable, "-c", KILLED, arguments], check=False, capture_output=True, text=True)
    assert ended.returncode == -signal.SIGXFSZ, ended.stderr
    assert not output.exists()


def parts(folder: Path) -> list[Path]:
    """What lies under names that outputs have while they are written, and their journals."""
    return sorted(path for path in folder.iterdir() if path.name.startswith("."))


def journal(folder: Path) -> Path:
    (found,) = (path for path in parts(folder) if path.suffix == ".journal")
    return found


def contents(made: MergeResult) -> list[bytes]:
    return [Path(path).read_bytes() for path in made.paths]


@pytest.mark.parametrize(
    "options",
    [
        {},
        pytest.param({"codec": "zstd:5", "order": "branch"}, marks=pytest.mark.long),
        {"max_size": 70_000},
        pytest.param({"cluster_events": 130}, marks=pytest.mark.long),
        {"cluster_events": 2500, "basket_size": 4000, "codec": "lz4:1", "order": "offset"},
        pytest.param({"cluster_events": 90, "max_size": 70_000}, marks=pytest.mark.long),
        pytest.param({"sync": False}, marks=pytest.mark.long),
    ],
    ids=["copied", "recompressed", "several outputs", "slow", "slow with large clusters", "several slow", "no sync"],
)
def test_a_merge_that_is_killed_again_and_again_makes_the_same_file(
    tmp_path: Path, inputs: list[str], options: dict[str, Any]
) -> None:
    whole = undisturbed(tmp_path, inputs, **options)
    output = tmp_path / "all.root"
    sizes = sorted(Path(path).stat().st_size for path in whole.paths)
    # At the end of the last one all baskets are there.
    moments = [sizes[0] // 3, sizes[0] * 2 // 3, sizes[-1] - 3000, sizes[-1] - 10]
    for number, size in enumerate(moments):
        killed(size, output, inputs, resume=number > 0, **options)
    made = merge(inputs, output, resume=True, verify=True, **options)
    assert any("resumed after" in note for note in made.notes)
    assert contents(made) == contents(whole)
    assert (made.entries, made.files, made.baskets, made.objects) == (
        whole.entries,
        whole.files,
        whole.baskets,
        whole.objects,
    )
    assert parts(tmp_path) == []


def write_triggers(path: Path, seed: int, names: list[str]) -> str:
    """A file whose tree has these flags beside a number."""
    numbers = np.random.default_rng(seed).normal(size=1000)
    with uproot.recreate(path) as file:
        file.mktree("events", {"x": "f8", **dict.fromkeys(names, "bool")})
        for part in np.split(numbers, 4):
            file["events"].extend({"x": part, **dict.fromkeys(names, part > 0)})
    return str(path)


@pytest.mark.parametrize(
    "options",
    long_but([{}, {"codec": "zstd:5"}, {"cluster_events": 130}, {"max_size": 30_000}], [{"cluster_events": 130}]),
)
def test_a_merge_that_fills_branches_makes_the_same_file_after_kills(tmp_path: Path, options: dict[str, Any]) -> None:
    options |= {"fill_missing_branches": True}
    names = [[f"HLT_{number}", f"HLT_{number % 5}_late", "HLT_always"] for number in range(8)]
    inputs = [write_triggers(tmp_path / f"{number}.root", number, own) for number, own in enumerate(names)]
    whole = undisturbed(tmp_path, inputs, **options)
    sizes = sorted(Path(path).stat().st_size for path in whole.paths)
    output = tmp_path / "all.root"
    for number, size in enumerate([sizes[-1] * 2 // 3, sizes[-1] - 100]):
        killed(size, output, inputs, resume=number > 0, **options)
    made = merge(inputs, output, resume=True, verify=True, **options)
    assert any("resumed after" in note for note in made.notes)
    assert contents(made) == contents(whole)
    assert made.filled == whole.filled
    assert {branch.name: branch.files for branch in made.filled}["HLT_7"] == 7


@pytest.mark.parametrize("options", long_but([{}, {"codec": "zstd:5"}, {"cluster_events": 130}], [{}]))
def test_a_merge_that_fills_fields_of_rntuples_makes_the_same_file_after_kills(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    options |= {"fill_missing_branches": True}
    inputs = [str(tmp_path / f"{number}-ntuple.root") for number in range(8)]
    for number, path in enumerate(inputs):
        tree = write_triggers(tmp_path / f"{number}.root", number, [f"HLT_{number}", f"HLT_{number % 5}_late"])
        convert([f"{tree}:events"], path, cluster_entries=300)
    whole = undisturbed(tmp_path, inputs, **options)
    output = tmp_path / "all.root"
    for number, size in enumerate([whole.size_bytes // 2, whole.size_bytes - 100]):
        killed(size, output, inputs, resume=number > 0, **options)
    made = merge(inputs, output, resume=True, verify=True, **options)
    assert any("resumed after" in note for note in made.notes)
    assert contents(made) == contents(whole)
    assert made.filled == whole.filled
    assert {branch.name: (branch.files, branch.entries) for branch in made.filled}["HLT_7"] == (7, 7000)
    assert verify(whole.path, inputs).is_same


def test_other_branches_in_an_input_that_was_not_merged_yet_are_not_resumed(tmp_path: Path) -> None:
    inputs = [write_triggers(tmp_path / f"{number}.root", number, [f"HLT_{number}"]) for number in range(4)]
    whole = undisturbed(tmp_path, inputs, fill_missing_branches=True)
    output = tmp_path / "all.root"
    killed(whole.size_bytes // 2, output, inputs, fill_missing_branches=True)
    write_triggers(tmp_path / "3.root", 3, ["HLT_new"])
    with pytest.raises(OptionError, match="resume"):
        merge(inputs, output, resume=True, fill_missing_branches=True)
    with pytest.raises(OptionError, match="options"):
        merge(inputs, output, resume=True)


def test_baskets_that_are_on_the_disk_are_not_copied_again(tmp_path: Path, inputs: list[str]) -> None:
    whole = undisturbed(tmp_path, inputs)
    output = tmp_path / "all.root"
    killed(whole.size_bytes // 2, output, inputs)
    # What the first input has in its baskets is gone, and nothing shows it: it is not read.
    seek = int(uproot.open(inputs[0])["events/x"].member("fBasketSeek")[0])
    times, content = os.stat(inputs[0]), bytearray(Path(inputs[0]).read_bytes())
    content[seek : seek + 60] = b"\xff" * 60
    Path(inputs[0]).write_bytes(content)
    os.utime(inputs[0], ns=(times.st_atime_ns, times.st_mtime_ns))
    made = merge(inputs, output, resume=True)
    assert contents(made) == contents(whole)
    with pytest.raises(BadFileError, match=r"branch x: basket 0"):
        merge(inputs, output, force=True)


@pytest.mark.parametrize("options", [{}, {"where": "x > -1", "tree": "events"}])
def test_new_baskets_of_one_input_that_are_on_the_disk_are_not_made_again(
    tmp_path: Path, inputs: list[str], options: dict[str, Any]
) -> None:
    options |= {"cluster_events": 70, "memory_limit": 200_000}
    (tmp_path / "whole").mkdir()
    make = skim if "where" in options else merge
    whole = make(inputs[:2], tmp_path / "whole" / "all.root", **options)
    output = tmp_path / "all.root"
    for number in range(2):
        killed(whole.size_bytes * (number + 1) // 4, output, inputs[:2], resume=number > 0, **options)
    made = make(inputs[:2], output, resume=True, verify=True, **options)
    (resumed,) = (note for note in made.notes if "resumed after" in note)
    assert 100 < int(resumed.split()[2]) < whole.entries
    assert contents(made) == contents(whole)
    assert parts(tmp_path) == []


@pytest.mark.parametrize("options", long_but([{}, {"codec": "zstd:5"}, {"max_size": 40_000}], [{}]))
def test_a_skim_that_copies_other_trees_makes_the_same_file_after_kills(
    tmp_path: Path, inputs: list[str], options: dict[str, Any]
) -> None:
    options |= {"where": "x > -1", "tree": "events", "memory_limit": 50_000}
    (tmp_path / "whole").mkdir()
    whole = skim(inputs, tmp_path / "whole" / "all.root", **options)
    assert (len(whole.paths) > 1) == ("max_size" in options)
    output = tmp_path / "all.root"
    sizes = sorted(Path(path).stat().st_size for path in whole.paths)
    for number, size in enumerate([sizes[0] // 3, sizes[0] * 2 // 3, sizes[-1] - 3000, sizes[-1] - 10]):
        killed(size, output, inputs, resume=number > 0, **options)
    made = skim(inputs, output, resume=True, verify=True, **options)
    assert any("resumed after" in note for note in made.notes)
    assert contents(made) == contents(whole)
    assert (made.entries, made.baskets, made.objects) == (whole.entries, whole.baskets, whole.objects)
    assert parts(tmp_path) == []


def test_kills_while_the_next_input_is_copied_cost_nothing_that_was_noted(tmp_path: Path, inputs: list[str]) -> None:
    many = [shutil.copy(path, path.replace(".root", f"-{copy}.root")) for copy in range(10) for path in inputs]
    whole = undisturbed(tmp_path, many)
    output = tmp_path / "all.root"
    for number, files_done in enumerate((5, 25, 50)):
        arguments = json.dumps([files_done, os.fspath(output), {"resume": number > 0}, many])
        ended = subprocess.run([sys.executable, "-c", WATCHED, arguments], check=False, capture_output=True, text=True)
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        assert not output.exists()
    made = merge(many, output, resume=True)
    (resumed,) = (note for note in made.notes if "resumed after" in note)
    assert int(resumed.split()[2]) >= 49
    assert contents(made) == contents(whole)
    assert parts(tmp_path) == []


@pytest.mark.parametrize("options", [{}, {"codec": "lz4:4", "order": "offset"}], ids=["copied", "recompressed"])
def test_pages_of_rntuples_that_are_on_the_disk_are_not_copied_again(
    tmp_path: Path, inputs: list[str], options: dict[str, Any]
) -> None:
    ntuples = [str(tmp_path / f"{number}-ntuple.root") for number in range(FILES)]
    for path, ntuple in zip(inputs, ntuples, strict=True):
        convert([f"{path}:events"], ntuple, cluster_entries=300)
    whole = undisturbed(tmp_path, ntuples, **options)
    output = tmp_path / "all.root"
    killed(whole.size_bytes // 3, output, ntuples, **options)
    killed(whole.size_bytes * 2 // 3, output, ntuples, resume=True, **options)
    # What the first input has in its pages is gone, and nothing shows it: it is not read.
    times, content = os.stat(ntuples[0]), bytearray(Path(ntuples[0]).read_bytes())
    content[400:460] = b"\xff" * 60
    Path(ntuples[0]).write_bytes(content)
    os.utime(ntuples[0], ns=(times.st_atime_ns, times.st_mtime_ns))
    made = merge(ntuples, output, resume=True, verify=True, **options)
    assert any("resumed after" in note for note in made.notes)
    assert contents(made) == contents(whole)
    assert parts(tmp_path) == []
    with pytest.raises(BadFileError, match="field x: checksum mismatch in the page"):
        merge(ntuples, output, force=True, **options)


@pytest.mark.parametrize("harm", ["garbage", "empty", "half a record", "a wrong byte", "output cut"])
def test_what_was_left_is_trusted_only_as_far_as_it_is_whole(tmp_path: Path, inputs: list[str], harm: str) -> None:
    whole = undisturbed(tmp_path, inputs)
    output = tmp_path / "all.root"
    killed(whole.size_bytes * 2 // 3, output, inputs)
    path = journal(tmp_path)
    content = path.read_bytes()
    middle = len(content) // 2
    if harm == "output cut":
        part = path.with_suffix("")
        os.truncate(part, part.stat().st_size // 3)
    else:
        harmed = {
            "garbage": np.random.default_rng(3).bytes(5000),
            "empty": b"",
            "half a record": content[:-20],
            "a wrong byte": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
        }
        path.write_bytes(harmed[harm])
    made = merge(inputs, output, resume=True)
    said = "could not be trusted" if harm in ("garbage", "empty") else "resumed after"
    assert [note for note in made.notes if said in note]
    assert contents(made) == contents(whole)
    assert parts(tmp_path) == []


def test_inputs_or_options_that_are_others_now_are_refused_and_nothing_is_lost(
    tmp_path: Path, inputs: list[str]
) -> None:
    whole = undisturbed(tmp_path, inputs)
    output = tmp_path / "all.root"
    killed(whole.size_bytes // 2, output, inputs)
    left = parts(tmp_path)
    with pytest.raises(OptionError, match="from other inputs"):
        merge(inputs[1:], output, resume=True)
    with pytest.raises(OptionError, match="other options"):
        merge(inputs, output, resume=True, order="branch")
    with pytest.raises(OptionError, match="other options"):
        merge(inputs, output, resume=True, basket_size=1000)
    kept = Path(inputs[1]).read_bytes()
    times = os.stat(inputs[1])
    write(Path(inputs[1]), 77)
    with pytest.raises(OptionError, match=r"1\.root.*changed since"):
        merge(inputs, output, resume=True)
    assert parts(tmp_path) == left
    Path(inputs[1]).write_bytes(kept)
    os.utime(inputs[1], ns=(times.st_atime_ns, times.st_mtime_ns))
    assert contents(merge(inputs, output, resume=True)) == contents(whole)


def test_files_that_were_left_out_are_left_out_again(tmp_path: Path, inputs: list[str]) -> None:
    Path(inputs[0]).write_bytes(b"no file of ROOT")
    seek = int(uproot.open(inputs[1])["events/x"].member("fBasketSeek")[1])
    content = bytearray(Path(inputs[1]).read_bytes())
    content[seek : seek + 60] = b"\xff" * 60
    Path(inputs[1]).write_bytes(content)
    whole = undisturbed(tmp_path, inputs, skip_bad_files=True)
    output = tmp_path / "all.root"
    killed(whole.size_bytes // 2, output, inputs, skip_bad_files=True)
    made = merge(inputs, output, skip_bad_files=True, resume=True)
    assert [(file.path, file.reason) for file in made.skipped] == [(file.path, file.reason) for file in whole.skipped]
    assert [Path(file.path).name for file in made.skipped] == ["0.root", "1.root"]
    assert contents(made) == contents(whole)


def test_without_resume_what_was_left_goes_and_the_merge_begins_anew(tmp_path: Path, inputs: list[str]) -> None:
    whole = undisturbed(tmp_path, inputs)
    output = tmp_path / "all.root"
    killed(whole.size_bytes // 2, output, inputs)
    assert [path.suffix for path in parts(tmp_path)] == [".part", ".journal"]
    assert contents(merge(inputs, output)) == contents(whole)
    assert parts(tmp_path) == []


def test_a_merge_that_fails_leaves_neither_output_nor_journal(
    tmp_path: Path, inputs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(inputs[-1]).write_bytes(b"no file of ROOT")
    monkeypatch.setattr(merging, "MERGE_JOURNAL_BYTES", 0)
    with pytest.raises(BadFileError):
        merge(inputs, tmp_path / "all.root")
    assert parts(tmp_path) == []


def test_what_goes_wrong_with_the_last_note_is_not_lost(
    tmp_path: Path, inputs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    due = undisturbed(tmp_path, inputs).size_bytes * 3 // 4
    output = tmp_path / "all.root"
    monkeypatch.setattr(merging, "MERGE_JOURNAL_BYTES", due)
    # Nothing can be written where the journal is to be.
    (tmp_path / f".{output.name}.{os.getpid()}.part.journal").mkdir()
    with pytest.raises(BranchlineError, match="cannot write the journal of the merge"):
        merge(inputs, output)
    assert not output.exists()


def test_the_commands_go_on_and_say_so(tmp_path: Path, inputs: list[str]) -> None:
    output = tmp_path / "all.root"
    undisturbed(tmp_path, inputs, codec="lz4:4")
    killed(60_000, output, inputs, codec="lz4:4")
    command = ["recompress", *inputs, "-o", str(output), "--codec", "lz4:4", "--resume"]
    done = run_command(command)
    assert done.exit_code == 0, done.output
    assert f"of {FILES} files, which had been written already" in done.output
    assert output.read_bytes() == (tmp_path / "whole" / "all.root").read_bytes()
    done = run_command([*command, "--force"])
    assert "there was nothing to resume" in done.output


def test_an_input_that_cannot_be_opened_any_more_is_not_one_that_changed(tmp_path: Path, inputs: list[str]) -> None:
    output = tmp_path / "all.root"
    killed(60_000, output, inputs)
    os.rename(inputs[0], tmp_path / "elsewhere")
    os.mkfifo(inputs[0])
    with pytest.raises(BranchlineError, match=r"0\.root.* a pipe or a device"):
        merge(inputs, output, resume=True)
    os.replace(tmp_path / "elsewhere", inputs[0])
    assert "resumed after" in merge(inputs, output, resume=True).notes[0]
