"""Files of HDFS, read without Java by the package `hdfs-native`: names from the NameNode, bytes from the DataNodes.

It takes a cluster's settings from ``HADOOP_CONF_DIR`` or ``HADOOP_HOME``, the user from ``HADOOP_USER_NAME`` or a
ticket of Kerberos, and tokens from ``HADOOP_TOKEN_FILE_LOCATION``.

It does not report which machines hold the blocks of a file. ``locate_by_hdfs`` asks the NameNodes through WebHDFS; see
"Get File Block Locations" in Hadoop's documentation.
"""

from __future__ import annotations

import getpass
import http.client
import json
import os
import re
import threading
import urllib.parse
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache, partial
from xml.etree import ElementTree

from branchline.base.limits import HDFS_BLOCKS_MAX_BYTES, HDFS_WEB_PORT, HDFS_WEB_TLS_PORT
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

# An answer by WebHDFS that cannot be used.
_WRONG_ANSWER = "its NameNode answered what is no list of blocks"


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
    known = _read_settings(settings, home)
    name = (place or known.get("fs.defaultFS", "")).removeprefix("hdfs://").partition("/")[0]
    key = f"dfs.ha.namenodes.{name}"
    ids = [one.strip() for one in known.get(key, "").split(",") if one.strip()]
    return [{key: ",".join(ids[first:] + ids[:first])} for first in range(len(ids))]


def _read_settings(settings: str | None, home: str | None) -> dict[str, str]:
    """The settings in the files that the package reads, in the folder of settings or below Hadoop's home. It reports
    itself what cannot be read there.
    """
    folder = settings or os.path.join(home or "", "etc/hadoop")
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


@dataclass(frozen=True)
class HeldBytes:
    """How much of a file a machine holds."""

    host: str
    size_bytes: int


@dataclass(frozen=True)
class _WebAddress:
    """Where a NameNode answers by HTTP."""

    address: str
    is_secure: bool


def locate_by_hdfs(url: str, patience_s: float) -> list[HeldBytes]:
    """The machines that hold blocks of the file at ``url``, those with most of it first.

    Raises BridgeError.
    """
    authority, _, path = url.partition("://")[2].partition("/")
    settings = _read_settings(os.environ.get("HADOOP_CONF_DIR"), os.environ.get("HADOOP_HOME"))
    last: BridgeError | None = None
    for one in _web_addresses(authority, settings):
        try:
            return in_time(partial(_held_bytes, one, path, patience_s), patience_s, f"the NameNode at {one.address}")
        except BridgeError as error:
            # The other one may be active, or living.
            if error.kind not in ("unreachable", "timeout"):
                raise
            last = error
    raise last or BridgeError("unknown", HINTS["unknown"])


def _web_addresses(authority: str, known: dict[str, str]) -> list[_WebAddress]:
    """Of each NameNode of a cluster: as the settings say, else at the usual port of its machine."""
    default = known.get("fs.defaultFS", "").removeprefix("hdfs://").partition("/")[0]
    name = authority or default
    is_secure = known.get("dfs.http.policy", "").upper() == "HTTPS_ONLY"
    key = f"dfs.namenode.{'https' if is_secure else 'http'}-address"
    ids = [one.strip() for one in known.get(f"dfs.ha.namenodes.{name}", "").split(",") if one.strip()]
    found = []
    for end in [f".{name}.{one}" for one in ids] or [""]:
        rpc = known.get(f"dfs.namenode.rpc-address{end}", "") if ids else name
        # Settings of a cluster without a name are those of its default file system alone.
        given = known.get(f"{key}{end}", "") if ids or name == default else ""
        host, port = _host_and_port(given or rpc)
        if host in ("", "0.0.0.0", "[::]"):  # noqa: S104 - the settings of a server, which we ask
            host = _host_and_port(rpc)[0]
        usual = HDFS_WEB_TLS_PORT if is_secure else HDFS_WEB_PORT
        if host:
            found.append(_WebAddress(f"{host}:{port if given and port else usual}", is_secure))
    return found


def _host_and_port(address: str) -> tuple[str, str]:
    host, colon, port = address.rpartition(":")
    return (host, port) if colon and port.isdecimal() else (address, "")


def _held_bytes(name_node: _WebAddress, path: str, patience_s: float) -> list[HeldBytes]:
    status, content = _web_answer(name_node, path, patience_s)
    if len(content) > HDFS_BLOCKS_MAX_BYTES:
        raise BridgeError("failed", f"its list of blocks has more than {HDFS_BLOCKS_MAX_BYTES} bytes")
    if status == 401:
        reason = "its NameNode tells them only to who has logged in by Kerberos, which is not possible here"
        raise BridgeError("permission", reason)
    try:
        answer = json.loads(content)
    except ValueError:
        raise BridgeError("failed", f"{_WRONG_ANSWER} (status {status})") from None
    if status != 200:
        raise _web_refusal(answer, status)
    held: dict[str, int] = {}
    try:
        for block in answer["BlockLocations"]["BlockLocation"]:
            for host in block["hosts"]:
                held[str(host)] = held.get(str(host), 0) + int(block["length"])
    except (KeyError, TypeError, ValueError):
        raise BridgeError("failed", _WRONG_ANSWER) from None
    return [HeldBytes(host, size) for host, size in sorted(held.items(), key=lambda one: (-one[1], one[0]))]


def _web_answer(name_node: _WebAddress, path: str, patience_s: float) -> tuple[int, bytes]:
    user = os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
    query = urllib.parse.urlencode({"op": "GETFILEBLOCKLOCATIONS", "user.name": user})
    kind = http.client.HTTPSConnection if name_node.is_secure else http.client.HTTPConnection
    try:
        with closing(kind(name_node.address, timeout=patience_s)) as connection:
            connection.request("GET", f"/webhdfs/v1/{urllib.parse.quote(path)}?{query}")
            answer = connection.getresponse()
            return answer.status, answer.read(HDFS_BLOCKS_MAX_BYTES + 1)
    except (OSError, http.client.HTTPException) as error:
        reason = f"its NameNode does not answer at {name_node.address}: {getattr(error, 'strerror', None) or error}"
        raise BridgeError("timeout" if isinstance(error, TimeoutError) else "unreachable", reason) from error


def _web_refusal(answer: object, status: int) -> BridgeError:
    told = answer.get("RemoteException") if isinstance(answer, dict) else None
    if not isinstance(told, dict):
        return BridgeError("failed", f"{_WRONG_ANSWER} (status {status})")
    java = str(told.get("exception", ""))
    kind: Kind = JAVA_KINDS.get(java, "refused")
    words = f"{java}: {str(told.get('message', '')).partition(chr(10))[0]}"
    return BridgeError(kind, f"{words}; {HINTS[kind]}" if kind in HINTS else words)
