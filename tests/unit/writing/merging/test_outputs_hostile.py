"""Outputs in places where they cannot, or must not, be: what is there stays, and the message says what it is."""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot

from branchline.errors import BadFileError, BranchlineError, DatasetError, OptionError, StorageError
from branchline.reading.access import Access
from branchline.writing.merging.convert import convert
from branchline.writing.merging.merge import MergeProgress, merge
from branchline.writing.merging.skim import skim, slim

#: A merge is watched some times before it is whole.
SLOW = Access(throttle="requests=60/s")


def write(path: Path, **columns: np.ndarray) -> str:
    with uproot.recreate(path) as file:
        file.mktree("events", {name: column.dtype for name, column in columns.items()})
        file["events"].extend(columns)
    return str(path)


@pytest.mark.parametrize("ending", ["root", "parquet"])
@pytest.mark.parametrize("force", [False, True])
def test_links_devices_and_folders_are_not_replaced(tmp_path: Path, ending: str, force: bool) -> None:
    inputs = [write(tmp_path / "a.root", x=np.arange(3))]

    def make(output: Path) -> None:
        if ending == "parquet":
            convert(inputs, output, force=force, to="parquet")
        else:
            merge(inputs, output, force=force)

    pipe, folder = tmp_path / f"pipe.{ending}", tmp_path / f"folder.{ending}"
    os.mkfifo(pipe)
    folder.mkdir()
    with pytest.raises(StorageError, match=r"pipe\..*: this is a pipe or a device"):
        make(pipe)
    with pytest.raises(StorageError, match=r"folder\..*: this is a directory"):
        make(folder)
    assert pipe.is_fifo()
    loop, dangling = tmp_path / f"loop.{ending}", tmp_path / f"dangling.{ending}"
    loop.symlink_to(loop.name)
    dangling.symlink_to("nowhere")
    for link in (loop, dangling):
        if force:
            make(link)
            assert not link.is_symlink()
        else:
            with pytest.raises(StorageError, match="already"):
                make(link)
            assert link.is_symlink()
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".part")] == []


def test_a_path_is_named_even_if_its_letters_are_in_the_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.root", x=np.arange(3))
    monkeypatch.chdir(tmp_path)
    Path("d").mkdir()
    with pytest.raises(StorageError, match=r"^d: this is a directory"):
        merge([path], "d")


@pytest.mark.parametrize("ending", ["root", "parquet"])
def test_what_somebody_made_meanwhile_stays(tmp_path: Path, ending: str) -> None:
    inputs = [write(tmp_path / f"{number}.root", x=np.arange(10)) for number in range(30)]
    output = tmp_path / f"all.{ending}"

    def interfere(_: object) -> None:
        output.write_text("precious")

    make: Callable[..., object] = convert if ending == "parquet" else merge
    with pytest.raises(StorageError, match=r"another program has created this file in the meantime.*--force"):
        make(inputs, output, progress=interfere, access=SLOW)
    assert output.read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".part")] == []


@pytest.mark.parametrize("ending", ["root", "parquet"])
def test_of_several_that_write_the_same_output_one_does(tmp_path: Path, ending: str) -> None:
    inputs = [write(tmp_path / f"{number}.root", x=np.arange(10)) for number in range(20)]
    output = tmp_path / f"all.{ending}"
    ended: list[object] = []
    together = threading.Barrier(4)

    def work() -> None:
        together.wait()
        try:
            made = convert(inputs, output) if ending == "parquet" else merge(inputs, output)
            ended.append(made.entries)
        except StorageError as error:
            ended.append(error.what)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ended.count(200) == 1
    assert all("another program" in one or "already" in one for one in ended if isinstance(one, str))
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".part")] == []


def test_if_one_of_several_outputs_cannot_be_there_none_is(tmp_path: Path) -> None:
    inputs = [write(tmp_path / f"{number}.root", x=np.arange(10)) for number in range(30)]

    def interfere(_: MergeProgress) -> None:
        (tmp_path / "all_2.root").write_text("precious")

    with pytest.raises(StorageError, match=r"all_2\.root: "):
        merge(inputs, tmp_path / "all.root", max_size=1, progress=interfere, access=SLOW)
    assert sorted(path.name for path in tmp_path.glob("all*")) == ["all_2.root"]


def test_what_a_killed_conversion_left_goes_with_the_next(tmp_path: Path) -> None:
    path = write(tmp_path / "a.root", x=np.arange(3))
    nobodys = 2**22  # Linux gives smaller numbers to processes
    for ending in ("root", "parquet"):
        (tmp_path / f".b.{ending}.{nobodys}.part").write_text("left")
        convert([path], tmp_path / f"b.{ending}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.root", "b.parquet", "b.root"]


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_an_input_that_is_written_over_while_it_is_merged_is_reported(tmp_path: Path, scheme: str) -> None:
    inputs = [write(tmp_path / f"{number}.root", x=np.arange(10)) for number in range(30)]

    def interfere(_: MergeProgress) -> None:
        # Some of them are open now.
        for path in inputs:
            with open(path, "r+b") as file:
                file.write(b"root")

    with pytest.raises(BadFileError, match=r"\d\.root: .*changed during the merge"):
        merge([scheme + path for path in inputs], tmp_path / "all.root", progress=interfere, access=SLOW)
    assert not (tmp_path / "all.root").exists()


@pytest.mark.parametrize("make", [merge, functools.partial(convert, to="ttree")], ids=["merge", "convert"])
def test_an_output_replaces_no_input_however_this_is_named(tmp_path: Path, make: Callable[..., object]) -> None:
    first = write(tmp_path / "a b.root", x=np.arange(3))
    second = write(tmp_path / "second.root", x=np.arange(3))
    before = Path(second).read_bytes()
    replicas = {"data": {"files": {f"file://{first}": {"object_path": "events", "replicas": [f"file://{second}"]}}}}
    given: list[Any] = [second, f"file://{second}", f"file://localhost{second.replace('second', 'se%63ond')}", replicas]
    for inputs in given:
        with pytest.raises(StorageError, match=r"second\.root: the output is one of the inputs"):
            make(inputs, second, force=True)
        assert Path(second).read_bytes() == before


def test_sizes_and_names_that_cannot_be_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.root", x=np.arange(3))
    output = tmp_path / "b.root"
    for option in ("max_size", "basket_size", "cluster_bytes", "memory_limit"):
        with pytest.raises(BranchlineError, match=r"99999999999 TB|invalid basket size"):
            merge([path], output, **{option: "99999999999 TB"})  # type: ignore[arg-type]
    with pytest.raises(BranchlineError, match="cluster"):
        merge([path], output, cluster_events=2**63)
    with pytest.raises(BranchlineError, match="cluster"):
        convert([path], output, cluster_entries=2**64)
    if sys.platform == "linux":
        odd = os.fsencode(tmp_path) + b"/\xff.root"
        os.link(path, odd)
        with pytest.raises(DatasetError, match=r"\\xff\.root is not UTF-8"):
            merge([os.fsdecode(odd)], output)
    assert not output.exists()


@pytest.mark.parametrize("name", ["x.parquet", "x.txt", "x.H5", "x.root.gz"])
def test_a_root_file_has_no_name_of_another_format(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "a.root", x=np.arange(3))
    output = tmp_path / name
    makers: list[Callable[[], object]] = [
        lambda: merge([path], output),
        lambda: merge([path], output, codec="zstd:5", force=True),
        lambda: slim([path], output, branches=["x"]),
        lambda: skim([path], output, where="x > 1"),
        lambda: convert([path], output, to="rntuple"),
    ]
    for make in makers:
        with pytest.raises(
            OptionError, match=r"the output is a ROOT file, .* has the suffix of another format .*OUT\.root"
        ):
            make()
    assert os.listdir(tmp_path) == ["a.root"]


def test_the_ending_of_the_output_chooses_its_format(tmp_path: Path) -> None:
    path = write(tmp_path / "a.root", x=np.arange(3))
    for name in ("b.txt", "b.rot", "b.json"):
        with pytest.raises(OptionError, match=r"unknown file format: .*OUT\.root or OUT\.parquet, .*--to"):
            convert([path], tmp_path / name)
    with pytest.raises(OptionError, match="the output is a Parquet file"):
        convert([path], tmp_path / "b.root", to="parquet")
    assert os.listdir(tmp_path) == ["a.root"]
    assert convert([path], tmp_path / "b.Parquet").kind == "parquet"
    assert [convert([path], tmp_path / name).kind for name in ("c.root", "c")] == ["rntuple"] * 2
    assert convert([path], tmp_path / "d.part", to="ttree").kind == "ttree"
