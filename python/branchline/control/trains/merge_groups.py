"""The files of a dataset with merge groups, as a list that names each group."""

from __future__ import annotations

import json
from pathlib import Path

from branchline.base.whole_files import write_whole
from branchline.control.registry.entries import DatasetEntry
from branchline.errors import OptionError
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.datasets.dataset import Dataset
from branchline.reading.locations import BETWEEN_REPLICAS, without_secrets

#: In the folder of a train: the files of each merge group.
GROUPS_FILE = "dataset.json"
#: The files that are in no group.
REST = "rest"


def write_groups(entry: DatasetEntry, folder: Path) -> Path:
    """Writes the list. The files are those of now: a pattern that matches more tomorrow has others then.

    Raises OptionError for a file in two groups, or one that is none of the dataset's, DatasetError and StorageError for
    files that cannot be listed.
    """
    every = {one.path: one for one in Dataset.of(entry.files, entry.tree or None).files}
    groups: dict[str, list[DataFile]] = {}
    group_of: dict[str, str] = {}
    for group in entry.merge_groups:
        for file in Dataset.of(group.files, entry.tree or None).files:
            if file.path not in every:
                raise OptionError(f"{file.path} of merge group {group.name} is no file of {entry.address}")
            if file.path in group_of:
                what = f"{file.path} is in the merge groups {group_of[file.path]} and {group.name}"
                raise OptionError(what, hint="a file counts once")
            group_of[file.path] = group.name
            groups.setdefault(group.name, []).append(every[file.path])
    if rest := [file for path, file in every.items() if path not in group_of]:
        groups.setdefault(REST, []).extend(rest)
    path = folder / GROUPS_FILE
    content = {name: {"files": [_line(file) for file in files]} for name, files in groups.items()}
    write_whole(path, json.dumps(content, indent=1).encode())
    return path


def _line(file: DataFile) -> str:
    """A file with its replicas as lists have them."""
    location = file.location or file.path
    return BETWEEN_REPLICAS.join([f"{location}:{file.tree}" if file.tree else location, *file.replicas])


def groups_for_others(path: Path) -> bytes:
    """A list that was written, without the secrets of URLs."""
    content = json.loads(path.read_text(encoding="utf-8"))
    shown = {name: {"files": [_without_secrets(line) for line in group["files"]]} for name, group in content.items()}
    return json.dumps(shown, indent=1).encode()


def _without_secrets(line: str) -> str:
    return BETWEEN_REPLICAS.join(without_secrets(one) for one in line.split(BETWEEN_REPLICAS))
