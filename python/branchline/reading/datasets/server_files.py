"""Expands patterns and folders on servers, and queries file sizes, with folder listings."""

from __future__ import annotations

import fnmatch
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TypeVar

from branchline import _core
from branchline.base.limits import (
    FOLDERS_LISTED_MAX,
    FOLDERS_LISTED_TOGETHER,
    PROGRESS_INTERVAL_S,
)
from branchline.errors import BranchlineError, DatasetError, MissingFileError
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.datasets.identity import XROOTD_SCHEMES, version_of
from branchline.reading.datasets.server_listings import ListingEntry, encoded, list_folder
from branchline.reading.locations import (
    PARQUET_ENDINGS,
    ROOT_ENDING,
    is_parquet,
    is_url,
    links_in,
    parts_of,
    without_secrets,
)

# Number of concurrent queries for file sizes, equal to the number of connections that a process opens to one server.
# 10,000 files take 5 s with a round trip of 30 ms, or 10 s through a redirector.
SIZES_QUERIED_TOGETHER = 64
# Time after which no more sizes are queried: enough for 10,000 files at 0.7 s each, or 100,000 files through a
# redirector with a round trip of 30 ms.
SIZES_QUERIED_S = 120.0

# Matches the wildcards in URLs. A question mark is not a wildcard, since it starts the query.
MAGIC = re.compile(r"[*\[]")
ANY_FOLDERS = "**"
#: URL schemes for which listing a folder takes one or two requests and includes all file sizes.
SCHEMES_WITH_SIZES = (*XROOTD_SCHEMES, "dav", "davs", "s3", "hdfs")

Item = TypeVar("Item")
Result = TypeVar("Result")
#: A function that is called with the number of finished queries.
OnDone = Callable[[int], None]
#: A function that is called with the number of finished queries, and the number of all queries.
OnQueried = Callable[[int, int], None]


@dataclass(frozen=True)
class Found:
    """A matching file. If the server does not report them, ``size_bytes`` is None and ``version`` is empty.

    ``no_version`` is the reason why the file could not be queried.
    """

    url: str
    size_bytes: int | None
    version: str = ""
    no_version: str = ""


def is_url_pattern(url: str) -> bool:
    """Whether a URL is a pattern: its path contains `*` or `[...]`, or ends with a slash.

    A trailing slash means all ROOT files below the folder, or all Parquet files if the folder has no ROOT files. An
    fsspec chain is never a pattern.
    """
    if len(links_in(url)) > 1:
        return False
    path, query = _path_of(url)
    return bool(MAGIC.search(path)) or (path.endswith("/") and not query)


def expand_url(url: str, access: Access | None = None) -> list[Found]:
    """Return the files on a server that match a pattern or are in a folder.

    Files are sorted by name; the Parquet files of a folder are sorted by the numbers in their names. Raises
    DatasetError if no file matches, and the errors of `list_folder`.
    """
    path, query = _path_of(url)
    before = url[: len(url) - len(path) - len(query)]
    scheme = before.split("://", 1)[0].lower()
    parts = path.split("/")
    is_folder = not parts[-1]
    if is_folder:
        parts[-1:] = [ANY_FOLDERS, "*"]
    first = next(index for index, part in enumerate(parts) if MAGIC.search(part))
    walk = _FolderWalk(scheme, access)
    found = walk.matching(["/".join([before, *parts[1:first]] if first > 0 else [before])], parts[first:])
    if is_folder:
        found = _data_in(url[: len(url) - len(query)], found)
    if not found:
        raise DatasetError(
            f"no file matches {without_secrets(url)}",
            hint="the folder can be listed, but contains no matching files; check the pattern",
        )
    in_order = found if is_folder else sorted(found, key=lambda one: one.url)
    return [Found(one.url + query, one.size_bytes, one.version) for one in in_order]


def _data_in(folder: str, found: Sequence[Found]) -> list[Found]:
    """Return the ROOT files of a folder, or its Parquet files, like `branchline.reading.locations.files_in`."""
    roots = [] if is_parquet(folder) else [one for one in found if one.url.endswith(ROOT_ENDING)]
    if roots:
        return sorted(roots, key=lambda one: one.url)
    parts = {one.url: one for one in found if one.url.lower().endswith(PARQUET_ENDINGS)}
    return [parts[url] for url in parts_of(folder, parts)]


def _path_of(url: str) -> tuple[str, str]:
    """Return the path of a URL (including the slash after the host), and the query (including the question mark).

    S3 and HDFS URLs have no query, because their paths may contain question marks.
    """
    scheme, _, rest = url.partition("://")
    path = "/" + rest.partition("/")[2] if "/" in rest else ""
    if scheme.lower() in ("s3", "hdfs"):
        return path, ""
    path, mark, query = path.partition("?")
    return path, mark + query


class _FolderWalk:
    """Lists nested folders, several at a time."""

    def __init__(self, scheme: str, access: Access | None) -> None:
        self._scheme = scheme
        self._access = access
        # Cache of listings by URL. A ``**`` needs each listing twice: to match files and to descend into folders.
        self._listed: dict[str, list[ListingEntry]] = {}

    def matching(self, folders: Sequence[str], parts: Sequence[str]) -> list[Found]:
        """Return the files below ``folders`` that match the path components ``parts``, which start with a pattern."""
        part, *rest = parts
        if part == ANY_FOLDERS:
            found: dict[str, Found] = {}
            while folders:
                found |= {one.url: one for one in self.matching(folders, rest or ["*"])}
                folders = [url for url, one in self._entries(folders) if one.is_folder and not one.name.startswith(".")]
            return list(found.values())
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
        # If no folder matches, the result is empty; this is not an error.
        return self.matching(below, rest) if below else []

    def _entries(self, folders: Sequence[str]) -> Iterator[tuple[str, ListingEntry]]:
        is_first = not self._listed
        new = [one for one in dict.fromkeys(folders) if one not in self._listed]
        if len(self._listed) + len(new) > FOLDERS_LISTED_MAX:
            raise DatasetError(
                f"the pattern covers more than {FOLDERS_LISTED_MAX} folders at {without_secrets(folders[0])}",
                hint="give a more specific pattern, or a list of files",
            )
        found = in_threads(lambda one: _listed(one, self._access, must_be=is_first), new)
        self._listed |= dict(zip(new, found, strict=True))
        for folder in folders:
            yield from ((f"{folder}/{encoded(one.name, self._scheme)}", one) for one in self._listed[folder])


def _listed(folder: str, access: Access | None, *, must_be: bool) -> list[ListingEntry]:
    try:
        return list_folder(folder + "/", access)
    except MissingFileError:
        if must_be:
            raise
        return []


def _fits(name: str, pattern: str) -> bool:
    """Whether a name matches a shell pattern. Hidden files match only patterns that start with a dot."""
    is_hidden = name.startswith(".") and not pattern.startswith(".")
    return not is_hidden and fnmatch.fnmatchcase(name, pattern)


def with_sizes(
    files: Sequence[DataFile], access: Access | None = None, progress: OnQueried | None = None
) -> list[DataFile]:
    """Query the sizes and versions of remote files, and mark files that the server reports as missing.

    If the server does not respond, or if all queries together take longer than SIZES_QUERIED_S, the files keep unknown
    sizes and the reason why, and reading a file will raise its error. ``progress`` is called for queries that take
    seconds.
    """
    unknown = [one for one in files if is_url(one.path) and one.size_bytes is None]
    folders: dict[str, list[DataFile]] = {}
    for one in unknown:
        if one.opens.split("://", 1)[0].lower() in SCHEMES_WITH_SIZES and not _path_of(_first_url(one))[1]:
            folders.setdefault(_first_url(one).rpartition("/")[0], []).append(one)
    many = [folder for folder, inside in folders.items() if len(inside) > 1]
    queries = _Queries(access, progress)
    found: dict[str, Found] = {}
    for entries in in_threads(queries.files_in, many, done=queries.counted(len(many))):
        found |= {one.url: one for one in entries}
    left = {_first_url(one): one.opens for one in unknown if _first_url(one) not in found}
    counted = queries.counted(len(left))
    absent: set[str] = set()
    for url, answer in zip(left, in_threads(queries.about, left.items(), SIZES_QUERIED_TOGETHER, counted), strict=True):
        if answer is None:
            absent.add(url)
        else:
            found[url] = answer
    return [_sized(one, found, absent) for one in files]


class _Queries:
    """Queries for the sizes of a dataset's files, which end at a common deadline."""

    def __init__(self, access: Access | None, progress: OnQueried | None) -> None:
        self._access = access
        self._progress = progress
        self._end_s = time.monotonic() + SIZES_QUERIED_S
        self._reported_s = time.monotonic()

    def counted(self, total: int) -> OnDone:
        """Return a function that reports the number of finished queries, at most every PROGRESS_INTERVAL_S."""

        def report(done: int) -> None:
            now_s = time.monotonic()
            if self._progress is not None and now_s - self._reported_s >= PROGRESS_INTERVAL_S:
                self._reported_s = now_s
                self._progress(done, total)

        return report

    def files_in(self, folder: str) -> list[Found]:
        """Return the files of a folder; empty if the folder cannot be listed."""
        if time.monotonic() >= self._end_s:
            return []
        try:
            entries = list_folder(folder + "/", self._access, once=True)
        except BranchlineError:
            return []
        return [Found(f"{folder}/{one.name}", one.size_bytes, one.version) for one in entries if not one.is_folder]

    def about(self, file: tuple[str, str]) -> Found | None:
        """Return the size and version of a file, from any of its replicas; None if the file does not exist.

        ``file`` is the URL of the file, and the locations of all its replicas.
        """
        url, opens = file
        if time.monotonic() >= self._end_s:
            return Found(url, None, no_version=f"the queries of all sizes took more than {SIZES_QUERIED_S:.0f} s")
        try:
            size, identity = _core.size_and_identity(opens, self._access)
        except MissingFileError:
            return None
        except BranchlineError as error:
            return Found(url, None, no_version=error.reason)
        return Found(url, size, version_of(url, size, identity))


def _sized(one: DataFile, found: dict[str, Found], absent: set[str]) -> DataFile:
    if not is_url(one.path) or one.size_bytes is not None:
        return one
    url = _first_url(one)
    known = found.get(url, Found(url, None))
    # A checksum in the dataset's list takes precedence.
    version = one.version or known.version
    no_version = "" if version else known.no_version or "its server reports neither a modification time nor an ETag"
    return replace(one, size_bytes=known.size_bytes, version=version, no_version=no_version, is_absent=url in absent)


def _first_url(one: DataFile) -> str:
    return one.location or one.path


def in_threads(
    work: Callable[[Item], Result],
    given: Iterable[Item],
    threads: int = FOLDERS_LISTED_TOGETHER,
    done: OnDone | None = None,
) -> list[Result]:
    """Run ``work``, which mostly waits for servers, for all items in threads. Returns the results in order. ``done`` is
    called with the number of results.

    Ctrl-C and errors end the wait immediately. The threads are not joined, because a server may not respond for a
    minute. Threads are used even for a single item, since Ctrl-C does not interrupt a library call.
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
            except BaseException as error:  # noqa: BLE001 - raised in the caller
                future.set_exception(error)

    for _ in range(min(len(futures), threads)):
        threading.Thread(target=run, name="branchline-listing", daemon=True).start()
    results = []
    try:
        for future in futures:
            results.append(future.result())
            if done is not None:
                done(len(results))
    finally:
        tasks.clear()
    return results
