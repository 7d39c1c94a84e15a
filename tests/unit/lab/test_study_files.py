"""The files of a study's jobs are looked for where the study says, however the place is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from branchline.errors import OptionError
from branchline.lab.sampling.study_files import files_of
from branchline.lab.study import JobSettings


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with a file, and another one with one below it."""
    (tmp_path / "set").mkdir()
    for name in ("a.root", "set/a.root"):
        (tmp_path / name).write_bytes(b"x" * (100 + len(name)))
    return tmp_path


@pytest.mark.parametrize(
    ("behind", "folder", "wanted"),
    [("", "", "a.root"), ("/", "", "a.root"), ("//", "set", "set/a.root"), ("/", "/set/", "set/a.root")],
)
def test_files_are_below_their_place(behind: str, folder: str, wanted: str, data: Path) -> None:
    found = files_of(JobSettings(where=(f"{data}{behind}",), folder=folder, files=("a.root",)))
    assert found.of_jobs == [[str(data / wanted)]]
    assert found.size_bytes == (data / wanted).stat().st_size


def test_a_place_may_be_the_root_of_all_folders(data: Path) -> None:
    found = files_of(JobSettings(where=("/",), files=(str(data / "a.root"),)))
    assert found.of_jobs == [[str(data / "a.root")]]


def test_a_folder_that_a_server_cannot_give_files_from_is_refused(data: Path) -> None:
    settings = JobSettings(where=(str(data),), files=("a.root",), served_from=(str(data),))
    assert sorted(files_of(settings).local)[-2:] == [str(data / "a.root"), str(data / "set/a.root")]
    for folder in ("missing", "empty"):
        (data / "empty").mkdir(exist_ok=True)
        wrong = JobSettings(where=(str(data),), files=("a.root",), served_from=(str(data / folder),))
        with pytest.raises(OptionError, match=rf"{folder}: served_from names a folder that has no files"):
            files_of(wrong)
