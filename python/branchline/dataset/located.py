"""Replicas of files as XRootD's servers locate them, written down as a fileset."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from branchline.bridge import BridgeError, locate_by_xrootd
from branchline.dataset.dataset import Dataset
from branchline.dataset.files import DataFile
from branchline.dataset.server_files import in_threads
from branchline.errors import MissingFileError, StorageError
from branchline.limits import LOCATE_WAIT_S
from branchline.locations import without_secrets

SCHEMES = ("root", "roots", "xroot", "xroots")


class LocatedFiles(TypedDict):
    """The files of a dataset in a fileset: a location each, or a list of replicas."""

    files: list[str | list[str]]
    sites: NotRequired[dict[str, str]]


def located_fileset(dataset: Dataset) -> dict[str, LocatedFiles]:
    """The dataset as a fileset, as ``json`` writes it, in which each file has the replicas that its server locates
    behind those that were listed.

    Raises MissingFileError and StorageError.
    """
    found = in_threads(_replicas, dataset.files)
    fileset: dict[str, LocatedFiles] = {}
    for file, replicas in zip(dataset.files, found, strict=True):
        named = fileset.setdefault(file.dataset or "dataset", {"files": []})
        # The tree stands behind the first replica.
        first = f"{replicas[0]}:{file.tree}" if file.tree else replicas[0]
        named["files"].append([first, *replicas[1:]] if len(replicas) > 1 else first)
        if file.sites.beginnings:
            named["sites"] = dict(file.sites.beginnings)
    return fileset


def _replicas(file: DataFile) -> list[str]:
    at_servers = [url for location in file.locations for url in located(location)]
    return list(dict.fromkeys([*file.locations, *at_servers]))


def located(location: str) -> list[str]:
    """The URLs of a file at each XRootD server that has it; nothing for a file that is not at XRootD.

    Raises MissingFileError and StorageError.
    """
    if location.partition("://")[0].lower() not in SCHEMES or "://" not in location:
        return []
    try:
        return locate_by_xrootd(location, LOCATE_WAIT_S)
    except BridgeError as error:
        shown = without_secrets(location)
        if error.kind == "missing":
            raise MissingFileError("no server has this file", path=shown) from error
        raise StorageError(f"the file cannot be located: {error}", path=shown, retry=error.retry) from error
