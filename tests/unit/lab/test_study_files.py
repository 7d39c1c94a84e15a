"""The files of a study's jobs are looked for where the study says, however the place is written."""

from __future__ import annotations

import pytest

from branchline.dataset.files import DataFile
from branchline.lab import study_files
from branchline.lab.study import JobSettings


@pytest.mark.parametrize(
    ("where", "folder", "wanted"),
    [
        ("root://host:1094//", "", "root://host:1094//a.root"),
        ("root://host//", "set", "root://host//set/a.root"),
        ("root://host//data/", "/set/", "root://host//data/set/a.root"),
        ("root://host/data", "", "root://host/data/a.root"),
        ("https://host", "", "https://host/a.root"),
        ("https://host/", "set", "https://host/set/a.root"),
        ("/", "", "/a.root"),
        ("/data//", "set", "/data/set/a.root"),
    ],
)
def test_files_are_below_their_place(where: str, folder: str, wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def expand(location: str, template: DataFile) -> list[DataFile]:
        asked.append(location)
        return [template.changed(path=location)]

    monkeypatch.setattr(study_files, "expand", expand)
    monkeypatch.setattr(study_files, "with_sizes", lambda files: files)
    monkeypatch.setattr(study_files.os.path, "getsize", lambda _: 1)
    files = study_files.files_of(JobSettings(where=(where,), folder=folder, files=("a.root",)))
    assert asked == [wanted]
    assert files.of_jobs == [[wanted]]
