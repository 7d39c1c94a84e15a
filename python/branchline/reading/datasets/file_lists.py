"""Expands file locations, and parses file lists.

Locations are paths, globs and directories, optionally with ``:tree``, and names of datasets in Rucio. File lists are
text files with one location per line, coffea's filesets in all formats, as JSON or TOML, and metalinks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain

from branchline.errors import DatasetError, MissingFileError
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile, Sample, companions_of
from branchline.reading.datasets.elements import ElementSites
from branchline.reading.datasets.identity import checked_size, checksum_version
from branchline.reading.datasets.joins import joins_of
from branchline.reading.locations import (
    BETWEEN_REPLICAS,
    files_at,
    is_rucio_name,
    is_url,
    replicas_in,
    split_location,
    text_of,
    without_braces,
)


def expand(location: str, template: DataFile, access: Access | None = None) -> list[DataFile]:
    """Return the files of a location, sorted by name; ``template`` provides all fields except path and tree.

    Brace alternatives are expanded in order, without duplicates. Raises DatasetError if a directory or a glob matches
    no file, and the errors of `locate_in_rucio`. Whether a plain path exists is not checked here: the dataset reports
    all missing files in one message.
    """
    if is_rucio_name(location):
        # Imported lazily, because few datasets are in Rucio.
        from branchline.reading.datasets.rucio_datasets import RucioDataset, locate_in_rucio

        return locate_in_rucio(RucioDataset.of(location), template, access)
    path, tree = split_location(location)
    alternatives = without_braces(path)
    if len(alternatives) > 1:
        below = replace(template, tree=tree or template.tree)
        return list(dict.fromkeys(file for one in alternatives for file in _expanded(one, None, below, access)))
    return _expanded(path, tree, template, access)


def _expanded(path: str, tree: str | None, template: DataFile, access: Access | None) -> list[DataFile]:
    if is_url(path) and len(replicas_in(path)) == 1:
        # Imported lazily, because local files do not need this module.
        from branchline.reading.datasets.server_files import expand_url, is_url_pattern

        if is_url_pattern(path):
            template = replace(template, tree=tree or template.tree)
            return [
                replace(_file_at(one.url, template), size_bytes=one.size_bytes, version=one.version)
                for one in expand_url(path, access)
            ]
    path = os.path.expanduser(path)
    paths = [path] if is_url(path) or len(replicas_in(path)) > 1 else files_at(path)
    template = template.changed(tree=tree) if tree else template
    return [_file_at(one, template) for one in paths]


def _file_at(location: str, template: DataFile) -> DataFile:
    return template.at(replicas_in(text_of(location)))


TEXT_SUFFIXES = (".txt", ".list", ".lst")
JSON_SUFFIXES = (".json", ".json.gz")
TOML_SUFFIX = ".toml"
METALINK_SUFFIXES = (".meta4", ".metalink")
# Keys that contain the tree's name in the various fileset formats.
TREE_KEYS = ("object_path", "treename", "tree")
# Keys of a dataset that restrict the replicas of its files in Rucio.
RUCIO_KEYS = ("schemes", "rses", "tape")
# Matches a comment. Requires whitespace before #, because # may be part of a path or URL.
_COMMENT = re.compile(r"(^|\s)#.*", re.DOTALL)


def is_list(path: str) -> bool:
    """Whether a file with this name is a list of files."""
    return path.lower().endswith((*TEXT_SUFFIXES, *JSON_SUFFIXES, TOML_SUFFIX, *METALINK_SUFFIXES))


def read_list(path: str, template: DataFile, access: Access | None) -> list[DataFile]:
    """Return the files of a text list, a fileset or a metalink.

    Raises MissingFileError if the list does not exist and DatasetError if it is invalid.
    """
    if not os.path.exists(path):
        hint = "lists must be local files; copy it to this machine" if "://" in path else None
        raise MissingFileError("this list of files does not exist", path=path, hint=hint)
    if path.lower().endswith(TEXT_SUFFIXES):
        return _read_text(path, template, access)
    if path.lower().endswith(METALINK_SUFFIXES):
        # Imported lazily, because few lists are metalinks.
        from branchline.reading.datasets.metalink import read_metalink

        return read_metalink(path, template)
    loaded = _load_toml(path) if path.lower().endswith(TOML_SUFFIX) else _load_json(path)
    return read_fileset(loaded, template, access, source=path)


def _read_text(path: str, template: DataFile, access: Access | None) -> list[DataFile]:
    files: list[DataFile] = []
    with open(path, encoding="utf-8") as lines:
        try:
            for line in lines:
                location = _COMMENT.sub("", line).strip()
                if location:
                    # Several URLs in one line are replicas of a file, even if only whitespace separates the URLs.
                    words = location.split()
                    replicas = BETWEEN_REPLICAS.join(words) if len(words) > 1 and all(map(is_url, words)) else location
                    files += expand(_relative_to(path, replicas), template, access)
        except UnicodeDecodeError as error:
            raise DatasetError("this list of files is not text", path=path) from error
    if not files:
        raise DatasetError(
            "this list contains no files",
            path=path,
            hint="write one path per line; # at the start or after whitespace begins a comment",
        )
    return files


def _load_json(path: str) -> object:
    # Imported lazily, because only filesets need these modules.
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
    # Lazy import: only TOML lists need it.
    import tomllib

    try:
        with open(path, "rb") as content:
            return tomllib.load(content)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DatasetError(f"this fileset is not valid TOML: {error}", path=path) from error


def read_fileset(fileset: object, template: DataFile, access: Access | None, source: str = "") -> list[DataFile]:
    """Return the files of a fileset in the order of the fileset.

    Supported formats:

    - ``{"name": {"files": {path: tree}, "metadata": {...}}}``, where ``files`` may also be a list of paths, or a
      mapping from paths to ``{"object_path": tree, "steps": [[start, stop], ...]}``;
    - ``{"name": [path, ...]}``;
    - ``{"name": {path: tree}}``;
    - a list of paths.

    Replicas of a file are specified as a list of paths instead of a path, as ``"replicas": [path, ...]`` beside
    ``"object_path"``, or as one string with `` | `` between the paths. Optional keys beside ``"files"``:

    - ``"companions"``, ``"join"``: as for ``Dataset.of``.
    - ``"sites"``: the sites of storage elements by location prefix, as in
      ``{"root://se.gsi.de:1094": "GSI", "/lustre": "GSI"}``.
    - ``"hosts"``: the machines that store a file, as in ``{"hdfs://namenode/a.root": ["node1", "node2"]}``. Workers on
      these machines are preferred for the file.
    - ``"sample"``: the cross section and other fields of ``Sample``.

    Beside ``"object_path"``, ``"version"`` is the checksum of a remote file, such as ``"adler32:0a1b2c3d"``: results
    are reused until it changes. ``"size_bytes"`` is the size of the file. Instead of ``"files"``, ``"rucio"`` has the
    name of a dataset in Rucio, or a list of names, beside optional ``"schemes"``, ``"rses"`` and ``"tape"``
    (`RucioDataset`).
    """
    where = source or None
    if isinstance(fileset, list):
        return [one for path in fileset for one in _one_file(path, None, template, access, source)]
    if not isinstance(fileset, Mapping) or not fileset:
        raise DatasetError("a fileset must be a non-empty mapping of dataset names to files", path=where)
    files: list[DataFile] = []
    for name, content in fileset.items():
        found = list(_one_dataset(str(name), content, template, access, source))
        if not found:
            raise DatasetError(f"the dataset {name!r} of this fileset contains no files", path=where)
        files += found
    return files


def fileset_of_replicas(given: tuple[object, ...], name: str) -> dict[str, object] | None:
    """Return the fileset of a result of coffea's ``rucio_utils.get_dataset_files_replicas``: the files, or the replicas
    of each file, the sites in the same order, and the number of files at each site. Returns None for any other tuple.
    """
    if len(given) != len(("files", "sites", "counts")):
        return None
    files, sites, counts = given
    if not isinstance(files, list) or not isinstance(sites, list) or not isinstance(counts, Mapping):
        return None
    if len(files) != len(sites) or not all(isinstance(count, int) for count in counts.values()):
        return None
    from branchline.reading.datasets.catalogue import sites_of_servers

    replicas = [one if isinstance(one, list) else [one] for one in files]
    at = [one if isinstance(one, list) else [one] for one in sites]
    pairs = [pair for urls, names in zip(replicas, at, strict=True) for pair in zip(urls, names, strict=False)]
    return {name or "dataset": {"files": replicas, "sites": dict(sites_of_servers(pairs).beginnings)}}


def _one_dataset(
    name: str, content: object, template: DataFile, access: Access | None, source: str
) -> Iterator[DataFile]:
    described: Mapping[str, object] = {}
    files = content
    if isinstance(content, Mapping) and ("files" in content or "rucio" in content):
        described, files = content, content.get("files", [])
    metadata = described.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise DatasetError(f"the metadata of dataset {name!r} are not a mapping", path=source or None)
    if isinstance(content, Mapping) and content.get("companions"):
        template = replace(template, companions=companions_of(content["companions"]))
    if isinstance(content, Mapping) and content.get("join"):
        template = replace(template, joins=joins_of(content["join"]))
    if described.get("sites") is not None:
        template = replace(template, sites=ElementSites.of(described["sites"], source))
    if described.get("sample") is not None:
        template = replace(template, sample=_with_path(Sample.of(described["sample"], name, source), name, source))
        metadata = {**metadata, "is_data": template.sample is not None and template.sample.is_data}
    tree = _tree_in(described) or template.tree
    template = replace(template, dataset=name, metadata=dict(metadata), tree=tree)
    found = chain(
        _listed_files(name, files, template, access, source),
        _rucio_files(name, described, template, access, source),
    )
    hosts = _hosts_in(described, source)
    yield from (_with_hosts(one, hosts) for one in found) if hosts else found


def _rucio_files(
    name: str, described: Mapping[str, object], template: DataFile, access: Access | None, source: str
) -> Iterator[DataFile]:
    given = described.get("rucio") or []
    restrictions = {key: described[key] for key in RUCIO_KEYS if key in described}
    if restrictions and not given:
        hint = f"{', '.join(RUCIO_KEYS)} restrict the replicas of a dataset in Rucio; add its name as rucio"
        raise DatasetError(
            f"the dataset {name!r} has {next(iter(restrictions))} without rucio", path=source or None, hint=hint
        )
    if not given:
        return
    from branchline.reading.datasets.rucio_datasets import RucioDataset, locate_in_rucio

    for one in given if isinstance(given, list) else [given]:
        yield from locate_in_rucio(RucioDataset.of(one, restrictions, source), template, access)


def _with_path(sample: Sample, name: str, source: str) -> Sample:
    """Return a sample with the absolute path of its file of luminosities. Raises DatasetError if there is no file."""
    if not isinstance(sample.section_luminosity_per_pb, str):
        return sample
    path = os.path.abspath(os.path.expanduser(_relative_to(source, sample.section_luminosity_per_pb)))
    if not os.path.isfile(path):
        what = f"section_luminosity_per_pb of the sample of dataset {name!r}: the file {path} does not exist"
        raise DatasetError(what, path=source or None)
    return replace(sample, section_luminosity_per_pb=path)


def _hosts_in(content: Mapping[str, object], source: str) -> Mapping[str, tuple[str, ...]]:
    given = content.get("hosts") or {}
    is_right = isinstance(given, Mapping) and all(
        isinstance(hosts, list) and all(isinstance(one, str) and one for one in hosts) for hosts in given.values()
    )
    if not isinstance(given, Mapping) or not is_right:
        hint = 'use the form {"hdfs://namenode/a.root": ["node1", "node2"]}'
        raise DatasetError(
            "the hosts of files are not a mapping of locations to lists of names", path=source or None, hint=hint
        )
    return {str(location): tuple(hosts) for location, hosts in given.items()}


def _with_hosts(file: DataFile, hosts: Mapping[str, tuple[str, ...]]) -> DataFile:
    found = dict.fromkeys(host for location in file.locations for host in hosts.get(location, ()))
    return file.changed(hosts=tuple(found)) if found else file


def _listed_files(
    name: str, files: object, template: DataFile, access: Access | None, source: str
) -> Iterator[DataFile]:
    if isinstance(files, str):
        files = [files]
    if isinstance(files, Mapping):
        for path, description in files.items():
            yield from _one_file(path, description, template, access, source)
    elif isinstance(files, list):
        for path in files:
            yield from _one_file(path, None, template, access, source)
    else:
        raise DatasetError(
            f"the files of dataset {name!r} are neither a list of paths nor a mapping of path to tree",
            path=source or None,
        )


def _one_file(
    path: object, description: object, template: DataFile, access: Access | None, source: str
) -> Iterator[DataFile]:
    if path == []:
        raise DatasetError(f"a file of dataset {template.dataset!r} has no replicas", path=source or None)
    if isinstance(path, list) and all(isinstance(one, str) for one in path):
        path = BETWEEN_REPLICAS.join(path)
    if not isinstance(path, str):
        raise DatasetError(f"{path!r} is not a path", path=source or None)
    ranges: list[tuple[int, int | None]] = [(0, None)]
    tree = description
    given: Mapping[str, object] = {}
    if isinstance(description, Mapping):
        given = _size_and_version(description, path, source)
        tree = _tree_in(description)
        ranges = _joined(description.get("steps"), path, source) or ranges
        replicas = description.get("replicas") or []
        if not isinstance(replicas, list) or not all(isinstance(one, str) for one in replicas):
            raise DatasetError(f"the replicas of {path} are not a list of paths", path=source or None)
        path = BETWEEN_REPLICAS.join([path, *replicas])
    if tree is not None and not isinstance(tree, str):
        raise DatasetError(f"the tree of {path} is {tree!r}, not a name", path=source or None)
    files = expand(_relative_to(source, path), replace(template, tree=tree or template.tree), access)
    if given and len(files) > 1:
        raise DatasetError(f"a version is given for {path}, which matches {len(files)} files", path=source or None)
    for one in files:
        for start, stop in ranges:
            yield replace(one, entry_start=start, entry_stop=stop).changed(**given)


def _size_and_version(description: Mapping[str, object], path: str, source: str) -> dict[str, object]:
    """Return the checksum that a fileset gives for a file, and its size, as fields of a DataFile."""
    if description.get("version") is None:
        return {}
    try:
        version, size_bytes = checksum_version(str(description["version"])), checked_size(description.get("size_bytes"))
    except ValueError as error:
        raise DatasetError(f"version or size_bytes of {path}: {error}", path=source or None) from error
    return {"version": version} if size_bytes is None else {"version": version, "size_bytes": size_bytes}


def _tree_in(description: Mapping[str, object]) -> str | None:
    for key in TREE_KEYS:
        if description.get(key):
            return str(description[key])
    return None


def _joined(steps: object, path: str, source: str) -> list[tuple[int, int | None]]:
    """Parse entry ranges and merge adjacent ranges, since a train splits files independently of the given steps."""
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
    """Resolve a relative path from the current directory.

    If the path does not exist there, it is resolved from the folder of the list.
    """
    path, _ = split_location(location)
    if BETWEEN_REPLICAS in path or is_rucio_name(location):
        return location
    if not source or is_url(path) or os.path.isabs(path) or path.startswith("~") or os.path.exists(path):
        return location
    in_folder = os.path.join(os.path.dirname(source), location)
    return in_folder if os.path.exists(split_location(in_folder)[0]) or "*" in path else location
