"""Where files are written to: paths whose folders are missing, URLs, and open files of Python."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

import branchline


def write(target: Any, **options: Any) -> None:
    with branchline.recreate(target, **options) as file:
        file.mktree("t", {"x": [1, 2, 3]})


def read(target: Any) -> list[int]:
    return list(branchline.open(target)["t"]["x"].array())


def test_folders_of_a_path_are_made(tmp_path: Path) -> None:
    for call in (branchline.recreate, branchline.create):
        path = tmp_path / call.__name__ / "deep" / "a.root"
        with call(path) as file:
            file.mktree("t", {"x": [1, 2, 3]})
        assert read(path) == [1, 2, 3]


@pytest.mark.parametrize("name", ["a.root", "a%20b.root", "a b.root"])
@pytest.mark.parametrize("scheme", ["file:", "file://", "file:///", "file://localhost"])
def test_a_file_url_names_a_local_file(tmp_path: Path, scheme: str, name: str) -> None:
    url = f"{scheme}{tmp_path}/new/{name}"
    write(url)
    assert (tmp_path / "new" / name).is_file()
    assert read(tmp_path / "new" / name) == [1, 2, 3]
    with branchline.update(url) as file:
        file["note"] = "more"
    assert branchline.open(tmp_path / "new" / name).keys(cycle=False) == ["t", "note"]


def test_a_file_url_of_another_machine_is_refused() -> None:
    with pytest.raises(branchline.OptionError, match="full path of a local file"):
        branchline.recreate("file://elsewhere/data/a.root")


@pytest.mark.parametrize("scheme", ["memory://", "simplecache::memory://"])
def test_fsspec_writes_to_any_other_url(tmp_path: Path, scheme: str) -> None:
    pytest.importorskip("fsspec")
    url = f"{scheme}{tmp_path}/folder/a.root"
    write(url)
    assert read(url.removeprefix("simplecache::")) == [1, 2, 3]
    with branchline.update(url) as file:
        file["note"] = "more"
    assert branchline.open(url.removeprefix("simplecache::")).keys(cycle=False) == ["t", "note"]
    with pytest.raises(FileExistsError, match="already"):
        branchline.create(url)


def test_a_missing_file_at_a_url_is_not_updated() -> None:
    pytest.importorskip("fsspec")
    with pytest.raises(FileNotFoundError):
        branchline.update("memory://nowhere/a.root")


def _write_and_fail(file: branchline.WritableFile) -> None:
    file["t"] = {"x": [1]}
    raise ZeroDivisionError


def test_what_was_written_before_a_failure_is_delivered() -> None:
    fsspec = pytest.importorskip("fsspec")
    with pytest.raises(ZeroDivisionError), branchline.recreate("memory://empty/a.root"):
        raise ZeroDivisionError
    assert not fsspec.filesystem("memory").exists("/empty/a.root")
    with pytest.raises(ZeroDivisionError), branchline.recreate("memory://failed/a.root") as file:
        _write_and_fail(file)
    assert read("memory://failed/a.root") == [1]


def test_an_open_file_gets_the_whole_file_and_stays_open(tmp_path: Path) -> None:
    target = io.BytesIO(b"x" * 100_000)
    write(target)
    (tmp_path / "a.root").write_bytes(target.getvalue())
    assert len(target.getvalue()) < 100_000
    assert read(tmp_path / "a.root") == [1, 2, 3]
    with branchline.update(target) as file:
        file["note"] = "more"
    (tmp_path / "b.root").write_bytes(target.getvalue())
    assert branchline.open(tmp_path / "b.root").keys(cycle=False) == ["t", "note"]


def test_a_file_that_is_open_for_writing_only_is_enough(tmp_path: Path) -> None:
    with (tmp_path / "a.root").open("wb") as target:
        write(target)
    assert read(tmp_path / "a.root") == [1, 2, 3]


def test_what_is_no_destination_is_refused() -> None:
    with pytest.raises(branchline.OptionError, match="int cannot be written to"):
        branchline.recreate(7)


def test_a_taken_name_is_a_file_exists_error(tmp_path: Path) -> None:
    write(tmp_path / "a.root")
    with pytest.raises(FileExistsError, match="already"):
        branchline.create(tmp_path / "a.root")
