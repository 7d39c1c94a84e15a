"""Locates files for a fileset: replicas on XRootD servers and in catalogues, and the machines that store the blocks of
HDFS files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NotRequired, TypedDict, TypeVar

from branchline.base.limits import HOSTS_OF_FILE_MAX, LOCATE_WAIT_S
from branchline.errors import MissingFileError, StorageError
from branchline.reading.bridge.bridged_file import BridgeError
from branchline.reading.bridge.hdfs_files import locate_by_hdfs
from branchline.reading.bridge.xrootd_files import locate_by_xrootd
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.datasets.dataset import Dataset
from branchline.reading.datasets.identity import is_checksum
from branchline.reading.datasets.server_files import in_threads
from branchline.reading.locations import without_secrets

SCHEMES = ("root", "roots", "xroot", "xroots")

Answer = TypeVar("Answer")


class DescribedFile(TypedDict):
    """A file, beside its first location: its tree, entry ranges, other replicas, checksum and size."""

    object_path: NotRequired[str]
    steps: NotRequired[list[list[int]]]
    replicas: list[str]
    version: NotRequired[str]
    size_bytes: NotRequired[int | None]


class LocatedFiles(TypedDict):
    """One dataset of a fileset: its files, the sites of storage elements, and the machines that store the files.

    Each file has a location or a list of replicas. If the checksum of a file is known, all files are described instead,
    by their first location.
    """

    files: list[str | list[str]] | dict[str, DescribedFile]
    sites: NotRequired[dict[str, str]]
    hosts: NotRequired[dict[str, list[str]]]


@dataclass(frozen=True)
class _Place:
    """All replicas of a file, and the machines that store most of the file, if the server reports them."""

    replicas: list[str]
    hosts: list[str]


def located_fileset(dataset: Dataset) -> dict[str, LocatedFiles]:
    """Return the dataset as a JSON-serializable fileset, with the replicas and machines that servers report.

    Replicas reported by a server are appended to the listed replicas. HDFS files get the machines with their blocks.
    Files without replicas in a catalogue are left out (see ``Dataset.missing``). Raises MissingFileError and
    StorageError.
    """
    files = [one for one in dataset if one.lookup is None or not one.is_missing]
    # A list cannot contain checksums.
    described = {one.dataset for one in files if is_checksum(one.version)}
    fileset: dict[str, LocatedFiles] = {}
    for file, place in zip(files, in_threads(_place_of, files), strict=True):
        named = fileset.setdefault(file.dataset or "dataset", {"files": {} if file.dataset in described else []})
        first, *others = place.replicas
        if isinstance(named["files"], dict):
            _add_described(named["files"].setdefault(first, {"replicas": others}), file)
        else:
            # The tree's name is appended to the first replica.
            with_tree = f"{first}:{file.tree}" if file.tree else first
            named["files"].append([with_tree, *others] if others else with_tree)
        if file.sites.beginnings:
            named["sites"] = dict(file.sites.beginnings)
        if place.hosts:
            named.setdefault("hosts", {})[first] = place.hosts
    return fileset


def _add_described(described: DescribedFile, file: DataFile) -> None:
    if file.tree:
        described["object_path"] = file.tree
    if file.entry_stop is not None:
        described.setdefault("steps", []).append([file.entry_start, file.entry_stop])
    if is_checksum(file.version):
        described["version"] = file.version
        described["size_bytes"] = file.size_bytes


def _place_of(file: DataFile) -> _Place:
    if file.lookup is not None:
        return _Place(list(file.locations), [])
    at_servers = [url for location in file.locations for url in located(location)]
    hosts = [host for location in file.locations for host in hosts_of(location)] or file.hosts
    return _Place(list(dict.fromkeys([*file.locations, *at_servers])), list(dict.fromkeys(hosts)))


def located(location: str) -> list[str]:
    """Return the URLs of a file on all XRootD servers that store it; empty for files that are not on XRootD.

    Raises MissingFileError and StorageError.
    """
    if _scheme_of(location) not in SCHEMES:
        return []
    return _answer_of(locate_by_xrootd, location)


def hosts_of(location: str) -> list[str]:
    """Return the machines that store most of an HDFS file, largest share first; empty for other files.

    Raises MissingFileError and StorageError, and MissingPackageError if httpx is not installed.
    """
    if _scheme_of(location) != "hdfs":
        return []
    return [one.host for one in _answer_of(locate_by_hdfs, location)[:HOSTS_OF_FILE_MAX]]


def _scheme_of(location: str) -> str:
    scheme, separator, _ = location.partition("://")
    return scheme.lower() if separator else ""


def _answer_of(locate: Callable[[str, float], Answer], location: str) -> Answer:
    try:
        return locate(location, LOCATE_WAIT_S)
    except BridgeError as error:
        shown = without_secrets(location)
        if error.kind == "missing":
            raise MissingFileError("no server has this file", path=shown) from error
        raise StorageError(f"the file cannot be located: {error}", path=shown, retry=error.retry) from error
