"""Files that list files: text with one location per line, and coffea's filesets in all their forms, as JSON or TOML."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from branchline.errors import DatasetError, MissingFileError
from branchline.reading.datasets.data_file import DataFile, Sample, companions_of
from branchline.reading.datasets.elements import ElementSites
from branchline.reading.datasets.patterns import expand
from branchline.reading.locations import BETWEEN_REPLICAS, is_url, split_location

TEXT_SUFFIXES = (".txt", ".list", ".lst")
JSON_SUFFIXES = (".json", ".json.gz")
TOML_SUFFIX = ".toml"
# A name of the tree is found under one of these keys in the filesets that are around.
TREE_KEYS = ("object_path", "treename", "tree")
# Behind a blank: within a path or URL, # is a character of its name.
_COMMENT = re.compile(r"(^|\s)#.*", re.DOTALL)


def is_list(path: str) -> bool:
    """Whether a file of this name lists other files."""
    return path.lower().endswith((*TEXT_SUFFIXES, *JSON_SUFFIXES, TOML_SUFFIX))


def read_list(path: str, template: DataFile) -> list[DataFile]:
    """The files named in a text list or a fileset.

    Raises MissingFileError if the list is not there and DatasetError if it is no list.
    """
    if not os.path.exists(path):
        hint = "a list is a local file; copy it to this machine" if "://" in path else None
        raise MissingFileError("there is no such list of files", path=path, hint=hint)
    if path.lower().endswith(TEXT_SUFFIXES):
        return _read_text(path, template)
    loaded = _load_toml(path) if path.lower().endswith(TOML_SUFFIX) else _load_json(path)
    return read_fileset(loaded, template, source=path)


def _read_text(path: str, template: DataFile) -> list[DataFile]:
    files: list[DataFile] = []
    with open(path, encoding="utf-8") as lines:
        try:
            for line in lines:
                location = _COMMENT.sub("", line).strip()
                if location:
                    files += expand(_relative_to(path, _replicas_in_line(location)), template)
        except UnicodeDecodeError as error:
            raise DatasetError("this list of files is not text", path=path) from error
    if not files:
        raise DatasetError(
            "this list names no file",
            path=path,
            hint="one path per line, # at its start or behind a blank starts a comment",
        )
    return files


def _replicas_in_line(location: str) -> str:
    """Several URLs in a line are replicas of one file, also with nothing but blanks between them."""
    words = location.split()
    return BETWEEN_REPLICAS.join(words) if len(words) > 1 and all(map(is_url, words)) else location


def _load_json(path: str) -> object:
    # Imported late: only filesets need them.
    import gzip
    import json

    opener = gzip.open if path.lower().endswith(".gz") else open
    try:
        with opener(path, "rt", encoding="utf-8") as text:
            found: object = json.load(text)
            return found
    except (json.JSONDecodeError, UnicodeDecodeError, gzip.BadGzipFile) as error:
        raise DatasetError(f"this fileset is not valid JSON: {error}", path=path) from error


def _load_toml(path: str) -> object:
    # Imported late: only such lists need it.
    import tomllib

    try:
        with open(path, "rb") as content:
            return tomllib.load(content)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DatasetError(f"this fileset is not valid TOML: {error}", path=path) from error


def read_fileset(fileset: object, template: DataFile, source: str = "") -> list[DataFile]:
    """The files of a fileset, in the order in which it names them.

    Understood are ``{"name": {"files": {path: tree}, "metadata": {...}}}``, with ``files`` also a list of paths or a
    mapping to ``{"object_path": tree, "steps": [[start, stop], ...]}``, next to ``files`` also ``"companions"`` as
    ``Dataset.of`` takes them, ``{"name": [path, ...]}``,
    ``{"name": {path: tree}}`` and a plain list of paths. Replicas of a file are a list of paths in the place of a path,
    ``"replicas": [path, ...]`` next to ``"object_path"``, or stand in one text with `` | `` between them. Next to
    ``files``, ``"sites"`` says where storage elements are, as ``{"root://se.gsi.de:1094": "GSI", "/lustre": "GSI"}``:
    each stands for the locations that begin with it. ``"hosts"`` names the machines that hold a file, as
    ``{"hdfs://namenode/a.root": ["node1", "node2"]}``: workers there get it first. ``"sample"`` has the cross
    section and the like, as ``Sample`` describes it.
    """
    where = source or None
    if isinstance(fileset, list):
        return [one for path in fileset for one in _one_file(path, None, template, source)]
    if not isinstance(fileset, Mapping) or not fileset:
        raise DatasetError("a fileset is a JSON object that names its datasets", path=where)
    files: list[DataFile] = []
    for name, content in fileset.items():
        found = list(_one_dataset(str(name), content, template, source))
        if not found:
            raise DatasetError(f"the dataset {name!r} of this fileset names no file", path=where)
        files += found
    return files


def _one_dataset(name: str, content: object, template: DataFile, source: str) -> Iterator[DataFile]:
    metadata: Mapping[str, object] = {}
    tree = None
    files = content
    if isinstance(content, Mapping) and "files" in content:
        files = content["files"]
        metadata = content.get("metadata") or {}
        if not isinstance(metadata, Mapping):
            raise DatasetError(f"the metadata of dataset {name!r} are no mapping", path=source or None)
        tree = _tree_in(content)
    if isinstance(content, Mapping) and content.get("companions"):
        template = replace(template, companions=companions_of(content["companions"]))
    if isinstance(content, Mapping) and "files" in content and content.get("sites") is not None:
        template = replace(template, sites=ElementSites.of(content["sites"], source))
    if isinstance(content, Mapping) and "files" in content and content.get("sample") is not None:
        template = replace(template, sample=Sample.of(content["sample"], name, source))
        metadata = {**metadata, "is_data": template.sample is not None and template.sample.is_data}
    template = replace(template, dataset=name, metadata=dict(metadata), tree=tree or template.tree)
    found = _listed_files(name, files, template, source)
    hosts = _hosts_in(content, source) if isinstance(content, Mapping) and "files" in content else {}
    yield from (_with_hosts(one, hosts) for one in found) if hosts else found


def _hosts_in(content: Mapping[str, object], source: str) -> Mapping[str, tuple[str, ...]]:
    given = content.get("hosts") or {}
    is_right = isinstance(given, Mapping) and all(
        isinstance(hosts, list) and all(isinstance(one, str) and one for one in hosts) for hosts in given.values()
    )
    if not isinstance(given, Mapping) or not is_right:
        hint = 'write it like {"hdfs://namenode/a.root": ["node1", "node2"]}'
        raise DatasetError("the hosts of files are lists of names by locations", path=source or None, hint=hint)
    return {str(location): tuple(hosts) for location, hosts in given.items()}


def _with_hosts(file: DataFile, hosts: Mapping[str, tuple[str, ...]]) -> DataFile:
    found = dict.fromkeys(host for location in file.locations for host in hosts.get(location, ()))
    return file.changed(hosts=tuple(found)) if found else file


def _listed_files(name: str, files: object, template: DataFile, source: str) -> Iterator[DataFile]:
    if isinstance(files, str):
        files = [files]
    if isinstance(files, Mapping):
        for path, description in files.items():
            yield from _one_file(path, description, template, source)
    elif isinstance(files, list):
        for path in files:
            yield from _one_file(path, None, template, source)
    else:
        raise DatasetError(
            f"the files of dataset {name!r} are neither a list of paths nor a mapping of path to tree",
            path=source or None,
        )


def _one_file(path: object, description: object, template: DataFile, source: str) -> Iterator[DataFile]:
    if isinstance(path, list) and path and all(isinstance(one, str) for one in path):
        path = BETWEEN_REPLICAS.join(path)
    if not isinstance(path, str):
        raise DatasetError(f"{path!r} is not a path", path=source or None)
    ranges: list[tuple[int, int | None]] = [(0, None)]
    tree = description
    if isinstance(description, Mapping):
        tree = _tree_in(description)
        ranges = _joined(description.get("steps"), path, source) or ranges
        replicas = description.get("replicas") or []
        if not isinstance(replicas, list) or not all(isinstance(one, str) for one in replicas):
            raise DatasetError(f"the replicas of {path} are not a list of paths", path=source or None)
        path = BETWEEN_REPLICAS.join([path, *replicas])
    if tree is not None and not isinstance(tree, str):
        raise DatasetError(f"the tree of {path} is given as {tree!r}, which is no name", path=source or None)
    for one in expand(_relative_to(source, path), replace(template, tree=tree or template.tree)):
        for start, stop in ranges:
            yield replace(one, entry_start=start, entry_stop=stop)


def _tree_in(description: Mapping[str, object]) -> str | None:
    for key in TREE_KEYS:
        if description.get(key):
            return str(description[key])
    return None


def _joined(steps: object, path: str, source: str) -> list[tuple[int, int | None]]:
    """Entry ranges with those joined that touch: steps are how others cut a file, which is not how we do."""
    joined: list[tuple[int, int | None]] = []
    try:
        if steps is not None and not isinstance(steps, list | tuple):
            raise TypeError
        for start, stop in steps or ():
            if not 0 <= int(start) <= int(stop):
                raise ValueError
            if joined and joined[-1][1] == int(start):
                joined[-1] = (joined[-1][0], int(stop))
            else:
                joined.append((int(start), int(stop)))
    except (TypeError, ValueError) as error:
        raise DatasetError(f"the steps of {path} are not a list of [start, stop]", path=source or None) from error
    return joined


def _relative_to(source: str, location: str) -> str:
    """A relative path is looked up from the current directory and, if it is not there, from the folder of the list."""
    path, _ = split_location(location)
    if BETWEEN_REPLICAS in path:
        return location
    if not source or is_url(path) or os.path.isabs(path) or path.startswith("~") or os.path.exists(path):
        return location
    in_folder = os.path.join(os.path.dirname(source), location)
    return in_folder if os.path.exists(split_location(in_folder)[0]) or "*" in path else location
