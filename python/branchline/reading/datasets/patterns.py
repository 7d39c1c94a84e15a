"""What a user may write for a file: a path, a glob, a directory, or any of these followed by ``:tree``."""

from __future__ import annotations

import os
from dataclasses import replace

from branchline.reading.datasets.data_file import DataFile
from branchline.reading.locations import (
    files_at,
    is_url,
    replicas_in,
    split_location,
    text_of,
    without_braces,
    without_secrets,
)


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
        from branchline.reading.datasets.server_files import expand_url, is_url_pattern

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
    return [path] if is_url(path) or len(replicas_in(path)) > 1 else files_at(path)
