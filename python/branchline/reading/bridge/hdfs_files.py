"""Files of HDFS, read without Java by the package `hdfs-native`: names from the NameNode, bytes from the DataNodes.

It takes a cluster's settings from ``HADOOP_CONF_DIR`` or ``HADOOP_HOME``, the user from ``HADOOP_USER_NAME`` or a
ticket of Kerberos, and tokens from ``HADOOP_TOKEN_FILE_LOCATION``.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from xml.etree import ElementTree

from branchline.reading.bridge.bridged_file import (
    Answer,
    BridgedFile,
    BridgeError,
    Kind,
    LibraryObject,
    ListedFile,
    WantedRange,
    in_time,
)

# Ranges that are read at the same time: each is a request to a DataNode, and most of its time is waiting.
READERS = 8
# By default the package tries NameNodes 15 times, for minutes. Three times are enough to find the active one of a
# cluster; the caller retries.
SETTINGS = {"dfs.client.failover.max.attempts": "3"}
# Variables that choose cluster and user; the URL does too.
VARIABLES = ("HADOOP_CONF_DIR", "HADOOP_HOME", "HADOOP_USER_NAME", "HADOOP_PROXY_USER", "HADOOP_TOKEN_FILE_LOCATION",
             "KRB5CCNAME")  # fmt: skip
# The text of an error of the package: its kind, and for errors of servers the Java class and its message.
WRITTEN = re.compile(r'(?P<kind>\w+)(?:\((?:"(?P<java>[\w.$]+)", )?"?(?P<words>.*?)(?:\\n|: \[|"?\)?$))?', re.DOTALL)
JAVA_KINDS: dict[str, Kind] = {
    "AccessControlException": "permission", "AuthorizationException": "permission", "InvalidToken": "permission",
    "StandbyException": "unreachable", "RetriableException": "unreachable", "SafeModeException": "unreachable",
    "FileNotFoundException": "missing",
}  # fmt: skip
KINDS: dict[str, Kind] = {
    "DataTransferError": "unreachable", "OperationFailed": "unreachable", "BlocksNotFound": "failed",
    "ChecksumError": "failed", "InvalidRPCResponse": "failed", "SASLError": "permission", "GSSAPIError": "permission",
    "NoSASLMechanism": "permission", "InvalidPath": "unknown", "InvalidArgument": "unknown",
    "UrlParseError": "unknown", "XmlParseError": "unknown",
}  # fmt: skip
HINTS: dict[Kind, str] = {
    "permission": "the user is that of HADOOP_USER_NAME, or of a ticket of Kerberos",
    "unknown": "an address is hdfs://namenode:port/path; names of clusters are looked up in HADOOP_CONF_DIR",
}

_clients: dict[tuple[str | int | None, ...], LibraryObject] = {}
_clients_lock = threading.Lock()
# By cluster, the order of NameNodes that was answered last.
_answering: dict[tuple[str | None, ...], int] = {}


def open_by_hdfs(url: str, patience_s: float) -> BridgedFile:
    """The file at ``url``, `hdfs://namenode:port/path`, the path as it stands.

    Raises BridgeError.
    """
    package, place, path = _parse_url(url)
    if not path.strip("/"):
        raise BridgeError("unknown", "it names no file, as hdfs://namenode:port/path does")

    def opened(client: LibraryObject) -> BridgedFile:
        info = client.get_file_info(path)
        if info.isdir:
            raise BridgeError("not a file", "it is a directory, not a file")
        return _HdfsFile(client.read(path), place or "hdfs://", info)

    return _answer_of(package, place, opened, patience_s)


def list_by_hdfs(url: str, patience_s: float) -> list[ListedFile]:
    """All that is in the folder at ``url``.

    Raises BridgeError.
    """
    package, place, path = _parse_url(url)
    found = _answer_of(package, place, lambda client: list(client.list_status(path or "/")), patience_s)
    return [
        ListedFile(one.path.rstrip("/").rpartition("/")[2], one.isdir, None if one.isdir else one.length)
        for one in found
    ]


def _parse_url(url: str) -> tuple[LibraryObject, str | None, str]:
    """The package, the cluster, and the path there."""
    try:
        import hdfs_native
    except ImportError as error:
        reason = "HDFS is read by the package hdfs-native, which is not installed: pip install 'branchline[hdfs]'"
        raise BridgeError("unknown", reason) from error
    authority, slash, path = url.partition("://")[2].partition("/")
    if "@" in authority:
        raise BridgeError("unknown", "HDFS takes no user from a URL; set HADOOP_USER_NAME and leave it out here")
    if "\0" in path:
        raise BridgeError("unknown", "it names no file, as hdfs://namenode:port/path does")
    return hdfs_native, f"hdfs://{authority}" if authority else None, slash + path


def _answer_of(
    package: LibraryObject, place: str | None, ask: Callable[[LibraryObject], Answer], patience_s: float
) -> Answer:
    """What a cluster answers. The package never gives up on a NameNode that does not answer. After a while the query
    is repeated with another NameNode first, which stays the first from then on.

    Raises BridgeError.
    """
    cluster = (place, os.environ.get("HADOOP_CONF_DIR"), os.environ.get("HADOOP_HOME"))
    orders = _namenode_orders(*cluster)
    try:
        if len(orders) < 2:  # the caller keeps the deadline
            return ask(_client(package, place, SETTINGS))
        known = _answering.get(cluster, 0)
        for index in (*range(known, len(orders)), *range(known)):
            client = _client(package, place, SETTINGS | orders[index])
            with suppress(_SilenceError):
                answer = _unless_silent(partial(ask, client), patience_s / (len(orders) + 1))
                _answering[cluster] = index
                return answer
    except BaseException as error:
        raise as_bridge_error(error) from error
    raise BridgeError("timeout", f"none of its {len(orders)} NameNodes answered")


class _SilenceError(Exception):
    """No answer came in time."""


def _unless_silent(ask: Callable[[], Answer], patience_s: float) -> Answer:
    try:
        return in_time(ask, patience_s, "a NameNode")
    except BridgeError as error:
        if error.kind == "timeout":
            raise _SilenceError from error
        raise


def _client(package: LibraryObject, place: str | None, settings: dict[str, str]) -> LibraryObject:
    """The client of a cluster: one in each process, since its threads do not come along into another."""
    key = (place, *settings.values(), os.getpid(), *(os.environ.get(name) for name in VARIABLES))
    with _clients_lock:
        if key not in _clients:
            _clients[key] = package.Client(place, settings)
        return _clients[key]


@cache  # as the package's clients are kept
def _namenode_orders(place: str | None, settings: str | None, home: str | None) -> list[dict[str, str]]:
    """Settings for a cluster that is given by name, one for each NameNode, which they have the package try first."""
    known = _read_settings(settings or os.path.join(home or "", "etc/hadoop"))
    name = (place or known.get("fs.defaultFS", "")).removeprefix("hdfs://").partition("/")[0]
    key = f"dfs.ha.namenodes.{name}"
    ids = [one.strip() for one in known.get(key, "").split(",") if one.strip()]
    return [{key: ",".join(ids[first:] + ids[:first])} for first in range(len(ids))]


def settings_in() -> dict[str, str]:
    """The settings of Hadoop on this machine; none where there are none."""
    folder = os.environ.get("HADOOP_CONF_DIR")
    return _read_settings(folder or os.path.join(os.environ.get("HADOOP_HOME", ""), "etc/hadoop"))


def _read_settings(folder: str) -> dict[str, str]:
    """The settings in the files that the package reads. It reports itself what cannot be read there."""
    found: dict[str, str] = {}
    for name in ("core-site.xml", "hdfs-site.xml"):
        with suppress(OSError, ElementTree.ParseError):
            root = ElementTree.parse(os.path.join(folder, name)).getroot()  # noqa: S314 - the user's own
            found |= {one.findtext("name", ""): one.findtext("value", "").strip() for one in root.iter("property")}
    return found


class _HdfsFile:
    """A file whose blocks the NameNode has named."""

    def __init__(self, reader: LibraryObject, name: str, info: LibraryObject) -> None:
        self.name = name
        # The package panics at ranges beyond the end that it knows.
        self.size_bytes = len(reader)
        self.identity = f"{self.size_bytes} {info.modification_time}"
        self._reader = reader

    def read(self, wanted: Sequence[WantedRange], patience_s: float) -> int:  # noqa: ARG002 - the package has no deadlines
        _ParallelReads(self._reader, wanted).run()
        return len(wanted)


class _ParallelReads:
    """Threads that read ranges until there are none, or one of them fails."""

    def __init__(self, reader: LibraryObject, wanted: Sequence[WantedRange]) -> None:
        self._reader = reader
        self._waiting = list(wanted)[::-1]
        self._failures: list[BridgeError] = []

    def run(self) -> None:
        """Reads all ranges. The caller may give up earlier, so the threads must not keep Python from ending."""
        count = min(len(self._waiting), READERS) - 1
        others = [threading.Thread(target=self._read_next, daemon=True) for _ in range(count)]
        for one in others:
            one.start()
        self._read_next()
        for one in others:
            one.join()
        if self._failures:
            raise self._failures[0]

    def _read_next(self) -> None:
        while not self._failures:
            try:
                wanted = self._waiting.pop()
            except IndexError:
                return
            try:
                # In pieces of 64 KiB: as a whole the package would copy them three times, each into new memory.
                for piece in self._reader.read_range_stream(wanted.offset, wanted.length):
                    wanted.append(piece)
            except BaseException as error:  # noqa: BLE001 - raised in the waiting thread
                self._failures.append(as_bridge_error(error))


def as_bridge_error(error: BaseException) -> BridgeError:
    """What an exception of the package means. Java's stack traces and lists of DataNodes stay where they are."""
    if isinstance(error, BridgeError):
        return error
    if isinstance(error, FileNotFoundError):
        return BridgeError("missing", "there is no such file")
    text = str(error).partition("\n")[0] or type(error).__name__
    if isinstance(error, TimeoutError):
        return BridgeError("timeout", f"no answer in time: {text}")
    if isinstance(error, PermissionError):
        return BridgeError("permission", f"{text}; {HINTS['permission']}")
    if isinstance(error, OSError):
        return BridgeError("unreachable", text)
    written = WRITTEN.match(str(error))
    if written is None or not isinstance(error, Exception):  # it panicked
        return BridgeError("refused", f"the package hdfs-native failed: {text}")
    java = (written["java"] or "").rpartition(".")[2]
    kind = JAVA_KINDS.get(java) or KINDS.get(written["kind"], "refused")
    if kind == "missing":
        return BridgeError(kind, "there is no such file")
    words = ": ".join(one for one in (java or written["kind"], written["words"]) if one)
    return BridgeError(kind, f"{words}; {HINTS[kind]}" if kind in HINTS else words)
