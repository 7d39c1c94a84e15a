"""Bundle a train for other machines: wagon sources, a list of the dataset's files, and one command to run the train.

For a dataset with merge groups, the bundle lists the files by group.
"""

from __future__ import annotations

import io
import json
import shlex
import zipfile
from pathlib import Path

from branchline.base.limits import TRAIN_WAGONS_MAX, WAGON_SOURCE_MAX_BYTES
from branchline.base.whole_files import write_whole
from branchline.control.registry.entries import DatasetEntry
from branchline.control.registry.wagon_file import WAGONS_FILE
from branchline.control.trains.train import Train
from branchline.errors import OptionError, WagonError
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.datasets.dataset import Dataset
from branchline.reading.datasets.file_lists import is_list
from branchline.reading.locations import BETWEEN_REPLICAS, shown_command, split_location, without_secrets
from branchline.records.sensors.record import JobRecord

#: Name of the file in a train's folder that lists the dataset's files by merge group.
GROUPS_FILE = "dataset.json"
#: Name of the merge group for files that are in no other merge group.
REST = "rest"
#: File names in a bundle: the list of the dataset's files, and the script that runs the train.
DATASET_FILE, RUN_FILE = "dataset.txt", "run.sh"
#: Modification time of all files in a bundle, the earliest in ZIP. Makes bundles of the same train identical.
_NO_TIME = (1980, 1, 1, 0, 0, 0)
_README = """{title}
{line}

Run the same train here:

    sh {run}

The results are in the folder `results`. They are identical, bit for bit, on any machine and with any number of workers,
with the same versions of these packages:

{versions}
{dataset}
These files contain no passwords and tokens of URLs: replace each `***` with your own.
"""


def bundle(train: Train, folder: Path, record: JobRecord | None) -> bytes:
    """Return the bundle as a ZIP archive with one folder. Raises WagonError if the train's sources are missing."""
    name = f"train-{train.number}-{train.order.name}"
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in _bundle_files(train, folder, record).items():
            archive.writestr(zipfile.ZipInfo(f"{name}/{path}", _NO_TIME), text, zipfile.ZIP_DEFLATED)
    return content.getvalue()


def _bundle_files(train: Train, folder: Path, record: JobRecord | None) -> dict[str, bytes]:
    """Return the content of the bundle's files, by path in the archive."""
    words = train.command
    files = words[3 : words.index("-o")]
    # File lists have one location per line, and cannot contain other lists, blanks and "#".
    is_plain = not any(is_list(split_location(one)[0]) or "#" in one or len(one.split()) > 1 for one in files)
    is_grouped = files == [str(folder / GROUPS_FILE)]
    dataset = [GROUPS_FILE] if is_grouped else [DATASET_FILE] if is_plain else files
    # Keep only options that affect the results. Users of the bundle choose the place and the number of workers.
    rest = words[words.index("-o") + 2 :]
    options: list[str] = []
    for option, value in zip(rest[::2], rest[1::2], strict=True):
        options += [option, value] if option in ("--tree", "--companion", "--allow-missing") else []
    command = ["branchline", "run", WAGONS_FILE, *dataset, "-o", "results", *options]
    found = sources_of(folder)
    found[RUN_FILE] = f'#!/bin/sh\ncd "$(dirname "$0")" && exec {shown_command(command)} "$@"\n'.encode()
    if is_plain:
        found[DATASET_FILE] = "".join(f"{without_secrets(one)}\n" for one in files).encode()
    if is_grouped:
        found[GROUPS_FILE] = groups_for_others(folder / GROUPS_FILE)
    named_in = dataset[0] if is_grouped or is_plain else RUN_FILE
    found["README.md"] = _readme(train, record, named_in).encode()
    versions = _versions(record)
    found["requirements.txt"] = "".join(f"{name}=={version}\n" for name, version in versions.items()).encode()
    return found


def sources_of(folder: Path) -> dict[str, bytes]:
    """Return the sources of a train, by path relative to its folder. Ignores links, which the train could create."""
    paths = [folder / WAGONS_FILE, *sorted(folder.glob("source_*/*.py"))[: 2 * TRAIN_WAGONS_MAX]]
    found: dict[str, bytes] = {}
    for path in paths:
        if path.is_symlink() or path.parent.is_symlink() or not path.is_file():
            continue
        with path.open("rb") as file:
            found[path.relative_to(folder).as_posix()] = file.read(WAGON_SOURCE_MAX_BYTES)
    if WAGONS_FILE not in found:
        raise WagonError("the sources of this train are missing")
    return found


def _versions(record: JobRecord | None) -> dict[str, str]:
    """Return the versions of the packages that a run used, by package name on PyPI."""
    if record is None:
        return {}
    versions = {"branchline": record.branchline, **record.versions}
    return {name: version for name, version in versions.items() if version and name != "python"}


def _readme(train: Train, record: JobRecord | None, dataset_file: str) -> str:
    title = f"Train {train.number}: {train.order.name}"
    python = [f"Python {record.versions['python']}"] if record is not None and "python" in record.versions else []
    lines = [*python, *(f"{name} {version}" for name, version in _versions(record).items())]
    where = (
        f"`{dataset_file}` lists the files of the dataset. Change the paths if they are elsewhere on your machine.\n"
    )
    return _README.format(
        title=title,
        line="=" * len(title),
        run=shlex.quote(RUN_FILE),
        versions="\n".join(f"- {one}" for one in lines) or "- (it has not run yet)",
        dataset=f"\n{where}",
    )


def write_groups(entry: DatasetEntry, folder: Path) -> Path:
    """Expand a dataset's patterns, and write the list of files by merge group to GROUPS_FILE. Return the file's path.

    Raises OptionError for a file that is in two groups or not in the dataset, and DatasetError or StorageError if files
    cannot be listed.
    """
    every = {one.path: one for one in Dataset.of(entry.files, entry.tree or None).files}
    groups: dict[str, list[DataFile]] = {}
    group_of: dict[str, str] = {}
    for group in entry.merge_groups:
        for file in Dataset.of(group.files, entry.tree or None).files:
            if file.path not in every:
                raise OptionError(f"{file.path} of merge group {group.name} is not in the dataset {entry.address}")
            if file.path in group_of:
                what = f"{file.path} is in the merge groups {group_of[file.path]} and {group.name}"
                raise OptionError(what, hint="remove it from one of them")
            group_of[file.path] = group.name
            groups.setdefault(group.name, []).append(every[file.path])
    if rest := [file for path, file in every.items() if path not in group_of]:
        groups.setdefault(REST, []).extend(rest)
    path = folder / GROUPS_FILE
    content = {name: {"files": [_file_line(file) for file in files]} for name, files in groups.items()}
    write_whole(path, json.dumps(content, indent=1).encode())
    return path


def _file_line(file: DataFile) -> str:
    """Return the line for a file and its replicas in a file list."""
    location = file.location or file.path
    return BETWEEN_REPLICAS.join([f"{location}:{file.tree}" if file.tree else location, *file.replicas])


def groups_for_others(path: Path) -> bytes:
    """Return the content of a GROUPS_FILE without secrets in URLs."""
    content = json.loads(path.read_text(encoding="utf-8"))
    shown = {}
    for name, group in content.items():
        replicas = [line.split(BETWEEN_REPLICAS) for line in group["files"]]
        shown[name] = {"files": [BETWEEN_REPLICAS.join(map(without_secrets, one)) for one in replicas]}
    return json.dumps(shown, indent=1).encode()
