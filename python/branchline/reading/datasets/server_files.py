"""Patterns, folders and sizes of files at servers, from what these say is in their folders."""

from __future__ import annotations

import fnmatch
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TypeVar

from branchline import _core
from branchline.base.limits import (
    FOLDERS_LISTED_MAX,
    FOLDERS_LISTED_TOGETHER,
    SIZES_QUERIED_MAX,
    SIZES_QUERIED_TOGETHER,
)
from branchline.errors import BranchlineError, DatasetError, MissingFileError
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.datasets.identity import XROOTD_SCHEMES, version_of
from branchline.reading.datasets.server_listings import Entry, encoded, list_folder
from branchline.reading.locations import (
    PARQUET_ENDINGS,
    ROOT_ENDING,
    is_parquet,
    is_url,
    links_in,
    parts_of,
    without_secrets,
)

# Wildcards of patterns in URLs, where a question mark begins the query.
MAGIC = re.compile(r"[*\[]")
ANY_FOLDERS = "**"
#: Schemes where listing a folder takes a request or two and gives the sizes of all files.
SCHEMES_WITH_SIZES = (*XROOTD_SCHEMES, "dav", "davs", "s3", "hdfs")

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Found:
    """A file that matches: its URL, and its size and its version; None and empty where the server does not say them."""

    url: str
    size_bytes: int | None
    version: str = ""


def is_url_pattern(url: str) -> bool:
    """True for a URL that stands for the files that match it: with `*` or `[...]` in its path, or a slash at its end,
    which means all ROOT files below, or all Parquet files where there are none. A chain of fsspec stands for one file.
    """
    if len(links_in(url)) > 1:
        return False
    path, query = _path_of(url)
    return bool(MAGIC.search(path)) or (path.endswith("/") and not query)


def expand_url(url: str) -> list[Found]:
    """The files at a server that match a pattern, sorted by name, or those in a folder: its Parquet files in the order
    of the numbers in their names.

    Raises DatasetError if there are none, and what listing folders raises.
    """
    path, query = _path_of(url)
    before = url[: len(url) - len(path) - len(query)]
    scheme = before.split("://", 1)[0].lower()
    parts = path.split("/")
    is_folder = not parts[-1]
    if is_folder:
        parts[-1:] = [ANY_FOLDERS, "*"]
    first = next(index for index, part in enumerate(parts) if MAGIC.search(part))
    walk = _FolderWalk(scheme)
    found = walk.matching(["/".join([before, *parts[1:first]] if first > 0 else [before])], parts[first:])
    if is_folder:
        found = _data_in(url[: len(url) - len(query)], found)
    if not found:
        raise DatasetError(
            f"no file matches {without_secrets(url)}", hint="the folder there can be listed, and has none"
        )
    in_order = found if is_folder else sorted(found, key=lambda one: one.url)
    return [Found(one.url + query, one.size_bytes, one.version) for one in in_order]


def _data_in(folder: str, found: Sequence[Found]) -> list[Found]:
    """The ROOT files of a folder, or its Parquet files, as `branchline.reading.locations.files_in` has them of local
    ones.
    """
    roots = [] if is_parquet(folder) else [one for one in found if one.url.endswith(ROOT_ENDING)]
    if roots:
        return sorted(roots, key=lambda one: one.url)
    parts = {one.url: one for one in found if one.url.lower().endswith(PARQUET_ENDINGS)}
    return [parts[url] for url in parts_of(folder, parts)]


def _path_of(url: str) -> tuple[str, str]:
    """From the slash after host and port on, and the query with its question mark; a key of S3 has none."""
    scheme, _, rest = url.partition("://")
    path = "/" + rest.partition("/")[2] if "/" in rest else ""
    if scheme.lower() in ("s3", "hdfs"):
        return path, ""
    path, mark, query = path.partition("?")
    return path, mark + query


class _FolderWalk:
    """Lists folders within folders, several at a time."""

    def __init__(self, scheme: str) -> None:
        self._scheme = scheme
        # By their URLs: what ``**`` looks for, and the folders that it goes on with, are in the same listings.
        self._listed: dict[str, list[Entry]] = {}

    def matching(self, folders: Sequence[str], parts: Sequence[str]) -> list[Found]:
        """The files below these folders that match the parts of a path, the first of which is a pattern."""
        part, *rest = parts
        if part == ANY_FOLDERS:
            return self._at_any_depth(folders, rest or ["*"])
        entries = self._entries(folders)
        if not rest:
            return [
                Found(url, one.size_bytes, one.version)
                for url, one in entries
                if not one.is_folder and _fits(one.name, part)
            ]
        below = [url for url, one in entries if one.is_folder and _fits(one.name, part)]
        while rest and len(rest) > 1 and not MAGIC.search(rest[0]):
            below, rest = [f"{one}/{rest[0]}" for one in below], rest[1:]
        # A folder without such a folder in it is no error.
        return self.matching(below, rest) if below else []

    def _at_any_depth(self, folders: Sequence[str], rest: Sequence[str]) -> list[Found]:
        found: dict[str, Found] = {}
        while folders:
            found |= {one.url: one for one in self.matching(folders, rest)}
            folders = [url for url, one in self._entries(folders) if one.is_folder and not one.name.startswith(".")]
        return list(found.values())

    def _entries(self, folders: Sequence[str]) -> Iterator[tuple[str, Entry]]:
        is_first = not self._listed
        new = [one for one in dict.fromkeys(folders) if one not in self._listed]
        if len(self._listed) + len(new) > FOLDERS_LISTED_MAX:
            raise DatasetError(
                f"there are more than {FOLDERS_LISTED_MAX} folders to look into at {without_secrets(folders[0])}",
                hint="write a pattern that is closer to the files, or a list of them",
            )
        found = in_threads(lambda one: _listed(one, must_be=is_first), new)
        self._listed |= dict(zip(new, found, strict=True))
        for folder in folders:
            yield from ((f"{folder}/{encoded(one.name, self._scheme)}", one) for one in self._listed[folder])


def _listed(folder: str, *, must_be: bool) -> list[Entry]:
    try:
        return list_folder(folder + "/")
    except MissingFileError:
        if must_be:
            raise
        return []


def _fits(name: str, pattern: str) -> bool:
    """Whether a name matches, as in a shell: a hidden file only if the pattern begins with a dot too."""
    is_hidden = name.startswith(".") and not pattern.startswith(".")
    return not is_hidden and fnmatch.fnmatchcase(name, pattern)


def with_sizes(files: Sequence[DataFile]) -> list[DataFile]:
    """The files with the sizes and versions of those at servers, and marked as missing where the server has no such
    file. A file whose server does not answer stays as it is: reading will say why.
    """
    unknown = [one for one in files if is_url(one.path) and one.size_bytes is None]
    folders: dict[str, list[DataFile]] = {}
    for one in unknown:
        if one.opens.split("://", 1)[0].lower() in SCHEMES_WITH_SIZES and not _path_of(_first_url(one))[1]:
            folders.setdefault(_first_url(one).rpartition("/")[0], []).append(one)
    many = [folder for folder, inside in folders.items() if len(inside) > 1]
    found: dict[str, Found] = {}
    for entries in in_threads(_files_in, many):
        found |= {one.url: one for one in entries}
    left = {_first_url(one): one.opens for one in unknown if _first_url(one) not in found}
    if len(left) > SIZES_QUERIED_MAX:
        left = {}
    absent: set[str] = set()
    for url, answer in zip(left, in_threads(_about, left.items(), SIZES_QUERIED_TOGETHER), strict=True):
        if answer is None:
            absent.add(url)
        else:
            found[url] = answer
    return [_sized(one, found, absent) for one in files]


def _sized(one: DataFile, found: dict[str, Found], absent: set[str]) -> DataFile:
    if not is_url(one.path) or one.size_bytes is not None:
        return one
    url = _first_url(one)
    known = found.get(url, Found(url, None))
    return replace(one, size_bytes=known.size_bytes, version=known.version, is_absent=url in absent)


def _first_url(one: DataFile) -> str:
    return one.location or one.path


def _files_in(folder: str) -> list[Found]:
    try:
        entries = list_folder(folder + "/", once=True)
    except BranchlineError:
        return []
    return [Found(f"{folder}/{one.name}", one.size_bytes, one.version) for one in entries if not one.is_folder]


def _about(one: tuple[str, str]) -> Found | None:
    """Size and version of a file by its URL and all of its replicas; None if there is no such file."""
    url, opens = one
    try:
        size, identity = _core.size_and_identity(opens)
    except MissingFileError:
        return None
    except BranchlineError:
        return Found(url, None)
    return Found(url, size, version_of(url, size, identity))


def in_threads(
    work: Callable[[Item], Result], given: Iterable[Item], threads: int = FOLDERS_LISTED_TOGETHER
) -> list[Result]:
    """The results for all items, in their order. Most of the work is waiting for servers.

    Ctrl-C and an error end the wait at once. The threads are not waited for then: a server may be silent for a minute,
    and the caller's thread would not see Ctrl-C within a library's call.
    """
    tasks = deque((one, Future[Result]()) for one in given)
    futures = [future for _, future in tasks]

    def run() -> None:
        while True:
            try:
                item, future = tasks.popleft()
            except IndexError:
                return
            try:
                future.set_result(work(item))
            except BaseException as error:  # noqa: BLE001 - the caller gets it
                future.set_exception(error)

    for _ in range(min(len(futures), threads)):
        threading.Thread(target=run, name="branchline-listing", daemon=True).start()
    try:
        return [future.result() for future in futures]
    finally:
        tasks.clear()
