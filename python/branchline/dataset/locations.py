"""What a user may write for a file: a path, a glob, a directory, or any of these followed by ``:tree``."""

from __future__ import annotations

import os
from dataclasses import replace

from branchline.dataset.files import DataFile
from branchline.errors import DatasetError
from branchline.locations import (
    files_matching,
    is_pattern,
    is_url,
    replicas_in,
    split_location,
    text_of,
    without_braces,
    without_secrets,
)

# Of a folder the ROOT files are taken, or the Parquet files of one that has none.
ROOT_SUFFIX, PARQUET_SUFFIX = ".root", ".parquet"


def expand(location: str, template: DataFile) -> list[DataFile]:
    """The files that a location stands for, sorted by name; ``template`` gives everything but path and tree.

    Those of braces come one alternative after the other, each file once. Raises DatasetError if a directory or a glob
    matches nothing. A plain path is taken as it is: whether it is there is found when the dataset is complete, so that
    all missing files are reported at once.
    """
    path, tree = split_location(location)
    alternatives = without_braces(path)
    if len(alternatives) > 1:
        below = replace(template, tree=tree or template.tree)
        return list(dict.fromkeys(file for one in alternatives for file in _expanded(one, None, below)))
    return _expanded(path, tree, template)


def _expanded(path: str, tree: str | None, template: DataFile) -> list[DataFile]:
    if is_url(path) and len(replicas_in(path)) == 1:
        # Imported late: local files do not need it.
        from branchline.dataset.server_files import expand_url, is_url_pattern

        if is_url_pattern(path):
            template = replace(template, tree=tree or template.tree)
            return [
                replace(_file_at(one.url, template), size_bytes=one.size_bytes, version=one.version)
                for one in expand_url(path)
            ]
    path = os.path.expanduser(path)
    paths = _paths_of(path)
    template = template.changed(tree=tree) if tree else template
    return [_file_at(one, template) for one in paths]


def _file_at(location: str, template: DataFile) -> DataFile:
    first, *replicas = replicas_in(text_of(location))
    path = without_secrets(first)
    return template.changed(path=path, location="" if path == first else first, replicas=tuple(replicas))


def _paths_of(path: str) -> list[str]:
    if is_url(path) or len(replicas_in(path)) > 1:
        return [path]
    if os.path.isdir(path):
        found = _files_below(path, ROOT_SUFFIX) or _files_below(path, PARQUET_SUFFIX)
        if not found:
            what = f"the directory {path} holds no file named *{ROOT_SUFFIX}, and none named *{PARQUET_SUFFIX}"
            raise DatasetError(what, path=path)
        return found
    if is_pattern(path):
        found = files_matching(path)
        if not found:
            raise DatasetError(
                f"no file matches {path}",
                hint=f"the pattern is looked up from {os.getcwd()}" if not os.path.isabs(path) else None,
            )
        return found
    return [path]


def _files_below(folder: str, ending: str) -> list[str]:
    found = []
    for parent, folders, names in os.walk(folder):
        folders.sort()
        found += [os.path.join(parent, name) for name in names if name.lower().endswith(ending)]
    return sorted(found)
