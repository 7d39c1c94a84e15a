"""Bundle a train for other machines: its wagons, its dataset and one command, independent of this server.

The files of a dataset with merge groups are listed by group.
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

#: In the folder of a train: the files of each merge group.
GROUPS_FILE = "dataset.json"
#: The files that are in no group.
REST = "rest"
#: In a bundle: the files of the dataset, and the script that runs the train.
DATASET_FILE, RUN_FILE = "dataset.txt", "run.sh"
#: ZIP has no earlier time: the same train is the same file, whenever it is fetched.
_NO_TIME = (1980, 1, 1, 0, 0, 0)
_README = """{title}
{line}

Run the same train here:

    sh {run}

The results are in the folder `results`. They are the same, bit for bit, wherever and with how many workers it runs,
with the same versions of these packages:

{versions}
{dataset}
Passwords and tokens of URLs are not in these files: where there are `***`, put your own.
"""


def bundle(train: Train, folder: Path, record: JobRecord | None) -> bytes:
    """A ZIP archive with one folder. Raises WagonError if the sources of the train are not there any more."""
    name = f"train-{train.number}-{train.order.name}"
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in _bundle_files(train, folder, record).items():
            archive.writestr(zipfile.ZipInfo(f"{name}/{path}", _NO_TIME), text, zipfile.ZIP_DEFLATED)
    return content.getvalue()


def _bundle_files(train: Train, folder: Path, record: JobRecord | None) -> dict[str, bytes]:
    """All files by their paths in the archive."""
    words = train.command
    files = words[3 : words.index("-o")]
    # A list takes one location in a line, without blanks and comments.
    is_plain = not any(is_list(split_location(one)[0]) or "#" in one or len(one.split()) > 1 for one in files)
    is_grouped = files == [str(folder / GROUPS_FILE)]
    dataset = [GROUPS_FILE] if is_grouped else [DATASET_FILE] if is_plain else files
    command = ["branchline", "run", WAGONS_FILE, *dataset, "-o", "results", *_result_options(train)]
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


def _result_options(train: Train) -> list[str]:
    """The options that results depend on; the place and the number of workers are those of the other machine."""
    words = train.command
    kept = []
    rest = words[words.index("-o") + 2 :]
    for option, value in zip(rest[::2], rest[1::2], strict=True):
        kept += [option, value] if option in ("--tree", "--companion", "--allow-missing") else []
    return kept


def sources_of(folder: Path) -> dict[str, bytes]:
    """The wagons of the train as it was ordered. Its process could write here: only plain files of sources count."""
    paths = [folder / WAGONS_FILE, *sorted(folder.glob("source_*/*.py"))[: 2 * TRAIN_WAGONS_MAX]]
    found: dict[str, bytes] = {}
    for path in paths:
        if path.is_symlink() or path.parent.is_symlink() or not path.is_file():
            continue
        with path.open("rb") as file:
            found[path.relative_to(folder).as_posix()] = file.read(WAGON_SOURCE_MAX_BYTES)
    if WAGONS_FILE not in found:
        raise WagonError("the sources of this train are not there any more")
    return found


def _versions(record: JobRecord | None) -> dict[str, str]:
    """The packages of the run, by their names in registries."""
    if record is None:
        return {}
    versions = {"branchline": record.branchline, **record.versions}
    return {name: version for name, version in versions.items() if version and name != "python"}


def _readme(train: Train, record: JobRecord | None, dataset_file: str) -> str:
    title = f"Train {train.number}: {train.order.name}"
    python = [f"Python {record.versions['python']}"] if record is not None and "python" in record.versions else []
    lines = [*python, *(f"{name} {version}" for name, version in _versions(record).items())]
    where = (
        f"The files of the dataset are named in `{dataset_file}`. Where they lie elsewhere, write your own places.\n"
    )
    return _README.format(
        title=title,
        line="=" * len(title),
        run=shlex.quote(RUN_FILE),
        versions="\n".join(f"- {one}" for one in lines) or "- (it has not run yet)",
        dataset=f"\n{where}",
    )


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
    content = {name: {"files": [_file_line(file) for file in files]} for name, files in groups.items()}
    write_whole(path, json.dumps(content, indent=1).encode())
    return path


def _file_line(file: DataFile) -> str:
    """A file with its replicas as lists have them."""
    location = file.location or file.path
    return BETWEEN_REPLICAS.join([f"{location}:{file.tree}" if file.tree else location, *file.replicas])


def groups_for_others(path: Path) -> bytes:
    """A list that was written, without the secrets of URLs."""
    content = json.loads(path.read_text(encoding="utf-8"))
    shown = {
        name: {"files": [_line_without_secrets(line) for line in group["files"]]} for name, group in content.items()
    }
    return json.dumps(shown, indent=1).encode()


def _line_without_secrets(line: str) -> str:
    return BETWEEN_REPLICAS.join(without_secrets(one) for one in line.split(BETWEEN_REPLICAS))
