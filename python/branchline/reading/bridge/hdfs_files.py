"""HDFS files, read without Java through the package `hdfs-native`: metadata from the NameNode, data from the DataNodes.

The package reads the cluster configuration from ``HADOOP_CONF_DIR`` or ``HADOOP_HOME``, the user from
``HADOOP_USER_NAME`` or a Kerberos ticket, and tokens from ``HADOOP_TOKEN_FILE_LOCATION``.

The package does not report which machines store a file's blocks. ``locate_by_hdfs`` queries the NameNodes for them
through WebHDFS; see "Get File Block Locations" in Hadoop's documentation.
"""

from __future__ import annotations

import getpass
import json
import os
import re
import ssl
import threading
import urllib.parse
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from xml.etree import ElementTree

from branchline.base.imports import missing_packages_explained
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

# Maximum number of ranges read concurrently. Each range is a request to a DataNode, so the threads mostly wait.
READERS = 8
# Settings for the package. By default, it retries NameNodes 15 times, for minutes. Three attempts are enough to find
# the active NameNode of a cluster; the caller has its own retries.
SETTINGS = {"dfs.client.failover.max.attempts": "3"}
# Environment variables that, together with the URL, select the cluster and the user.
VARIABLES = ("HADOOP_CONF_DIR", "HADOOP_HOME", "HADOOP_USER_NAME", "HADOOP_PROXY_USER", "HADOOP_TOKEN_FILE_LOCATION",
             "KRB5CCNAME")  # fmt: skip
# Matches the package's error messages: the kind of error, and for server errors the Java class and the message.
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
    "permission": "set the user with HADOOP_USER_NAME, or by a Kerberos ticket",
    "unknown": "use hdfs://namenode:port/path; cluster names are resolved with HADOOP_CONF_DIR",
}

_clients: dict[tuple[str | int | None, ...], LibraryObject] = {}
_clients_lock = threading.Lock()
# For each cluster, the index (in `_namenode_orders`) of the NameNode order that responded last.
_answering: dict[tuple[str | None, ...], int] = {}

# Error message for an invalid WebHDFS response.
_WRONG_ANSWER = "its NameNode did not return a list of blocks"


def open_by_hdfs(url: str, patience_s: float) -> BridgedFile:
    """Open the file at ``url``, such as `hdfs://namenode:port/path`. The path is not URL-encoded.

    Raises BridgeError.
    """
    package, place, path = _parse_url(url)
    if not path.strip("/"):
        raise BridgeError("unknown", "the URL has no path; use hdfs://namenode:port/path")

    def opened(client: LibraryObject) -> BridgedFile:
        info = client.get_file_info(path)
        if info.isdir:
            raise BridgeError("not a file", "it is a directory, not a file")
        return _HdfsFile(client.read(path), place or "hdfs://", info)

    return _answer_of(package, place, opened, patience_s)


def list_by_hdfs(url: str, patience_s: float) -> list[ListedFile]:
    """Return the entries of the folder at ``url``.

    Raises BridgeError.
    """
    package, place, path = _parse_url(url)
    found = _answer_of(package, place, lambda client: list(client.list_status(path or "/")), patience_s)
    return [
        ListedFile(one.path.rstrip("/").rpartition("/")[2], one.isdir, None if one.isdir else one.length)
        for one in found
    ]


def _parse_url(url: str) -> tuple[LibraryObject, str | None, str]:
    """Return the imported package, and the cluster and the path of a URL."""
    try:
        import hdfs_native
    except ImportError as error:
        reason = "HDFS is read through the package hdfs-native, which is not installed: pip install 'branchline[hdfs]'"
        raise BridgeError("unknown", reason) from error
    authority, slash, path = url.partition("://")[2].partition("/")
    if "@" in authority:
        raise BridgeError("unknown", "HDFS URLs cannot have a user; set HADOOP_USER_NAME instead")
    if "\0" in path:
        raise BridgeError("unknown", "the path contains a null character; use hdfs://namenode:port/path")
    return hdfs_native, f"hdfs://{authority}" if authority else None, slash + path


def _answer_of(
    package: LibraryObject, place: str | None, ask: Callable[[LibraryObject], Answer], patience_s: float
) -> Answer:
    """Query a cluster, and fail over to another NameNode after a timeout.

    The package waits forever for a NameNode that does not respond. After the timeout, the query is repeated with
    another NameNode first in the order; later queries use the order that worked.

    Raises BridgeError.
    """
    cluster = (place, os.environ.get("HADOOP_CONF_DIR"), os.environ.get("HADOOP_HOME"))
    orders = _namenode_orders(*cluster)
    try:
        if len(orders) < 2:  # the caller has its own timeout
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
    """Raised if a NameNode does not respond before the timeout."""


def _unless_silent(ask: Callable[[], Answer], patience_s: float) -> Answer:
    try:
        return in_time(ask, patience_s, "a NameNode")
    except BridgeError as error:
        if error.kind == "timeout":
            raise _SilenceError from error
        raise


def _client(package: LibraryObject, place: str | None, settings: dict[str, str]) -> LibraryObject:
    """Return the client of a cluster. Clients are cached per process, because their threads do not survive a fork."""
    key = (place, *settings.values(), os.getpid(), *(os.environ.get(name) for name in VARIABLES))
    with _clients_lock:
        if key not in _clients:
            _clients[key] = package.Client(place, settings)
        return _clients[key]


@cache  # clients are cached too, so a changed configuration would not reach them anyway
def _namenode_orders(place: str | None, settings: str | None, home: str | None) -> list[dict[str, str]]:
    """Return, for each NameNode of a cluster, the settings that make the package try this NameNode first.

    Empty if ``place`` is not the name of a cluster in the configuration.
    """
    known = _read_settings(settings, home)
    name = (place or known.get("fs.defaultFS", "")).removeprefix("hdfs://").partition("/")[0]
    key = f"dfs.ha.namenodes.{name}"
    ids = [one.strip() for one in known.get(key, "").split(",") if one.strip()]
    return [{key: ",".join(ids[first:] + ids[:first])} for first in range(len(ids))]


def _read_settings(settings: str | None, home: str | None) -> dict[str, str]:
    """Parse Hadoop's configuration files in the folder ``settings``, or else in ``etc/hadoop`` of the folder ``home``.
    Unreadable files are ignored here, because the package reads the same files and reports them.
    """
    folder = settings or os.path.join(home or "", "etc/hadoop")
    found: dict[str, str] = {}
    for name in ("core-site.xml", "hdfs-site.xml"):
        with suppress(OSError, ElementTree.ParseError):
            root = ElementTree.parse(os.path.join(folder, name)).getroot()  # noqa: S314 - the user's own configuration
            found |= {one.findtext("name", ""): one.findtext("value", "").strip() for one in root.iter("property")}
    return found


class _HdfsFile:
    """An open HDFS file with known block locations."""

    def __init__(self, reader: LibraryObject, name: str, info: LibraryObject) -> None:
        self.name = name
        # The package panics on ranges that exceed this size.
        self.size_bytes = len(reader)
        self.identity = f"{self.size_bytes} {info.modification_time}"
        self._reader = reader

    def read(self, wanted: Sequence[WantedRange], patience_s: float) -> int:  # noqa: ARG002 - it has no timeouts
        _ParallelReads(self._reader, wanted).run()
        return len(wanted)


class _ParallelReads:
    """Threads that read ranges until all ranges are read, or until one read fails."""

    def __init__(self, reader: LibraryObject, wanted: Sequence[WantedRange]) -> None:
        self._reader = reader
        self._waiting = list(wanted)[::-1]
        self._failures: list[BridgeError] = []

    def run(self) -> None:
        """Read all ranges.

        Uses daemon threads: if the caller stops waiting, the threads must not prevent Python from exiting.
        """
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
                # In pieces of 64 KiB: for a single range the package would make three copies, each in newly allocated
                # memory.
                for piece in self._reader.read_range_stream(wanted.offset, wanted.length):
                    wanted.append(piece)
            except BaseException as error:  # noqa: BLE001 - raised in the waiting thread
                self._failures.append(as_bridge_error(error))


def as_bridge_error(error: BaseException) -> BridgeError:
    """Convert an exception of the package to a BridgeError, without Java stack traces and lists of DataNodes."""
    if isinstance(error, BridgeError):
        return error
    if isinstance(error, FileNotFoundError):
        return BridgeError("missing", "there is no such file")
    text = str(error).partition("\n")[0] or type(error).__name__
    if isinstance(error, TimeoutError):
        return BridgeError("timeout", f"no answer in time: {text}")
    if isinstance(error, PermissionError):
        return BridgeError("permission", f"permission denied: {text}; {HINTS['permission']}")
    if isinstance(error, OSError):
        return BridgeError("unreachable", text)
    written = WRITTEN.match(str(error))
    if written is None or not isinstance(error, Exception):  # a panic
        return BridgeError("refused", f"the package hdfs-native failed: {text}")
    java = (written["java"] or "").rpartition(".")[2]
    kind = JAVA_KINDS.get(java) or KINDS.get(written["kind"], "refused")
    if kind == "missing":
        return BridgeError(kind, "there is no such file")
    words = ": ".join(one for one in (java or written["kind"], written["words"]) if one)
    return BridgeError(kind, f"{words}; {HINTS[kind]}" if kind in HINTS else words)


@dataclass(frozen=True)
class HeldBytes:
    """A machine, and the number of a file's bytes that the machine stores."""

    host: str
    size_bytes: int


@dataclass(frozen=True)
class _WebAddress:
    """The HTTP address of a NameNode."""

    address: str
    is_secure: bool


def locate_by_hdfs(url: str, patience_s: float) -> list[HeldBytes]:
    """Return the machines that store blocks of the file at ``url``, in descending order of stored bytes.

    Raises BridgeError, and MissingPackageError if httpx is not installed.
    """
    authority, _, path = url.partition("://")[2].partition("/")
    settings = _read_settings(os.environ.get("HADOOP_CONF_DIR"), os.environ.get("HADOOP_HOME"))
    last: BridgeError | None = None
    for one in _web_addresses(authority, settings):
        try:
            return in_time(partial(_held_bytes, one, path, patience_s), patience_s, f"the NameNode at {one.address}")
        except BridgeError as error:
            # Another NameNode may be active, or reachable.
            if error.kind not in ("unreachable", "timeout"):
                raise
            last = error
    raise last or BridgeError("unknown", HINTS["unknown"])


def _web_addresses(authority: str, known: dict[str, str]) -> list[_WebAddress]:
    """Return the HTTP addresses of a cluster's NameNodes from the configuration, or with the default port."""
    default = known.get("fs.defaultFS", "").removeprefix("hdfs://").partition("/")[0]
    name = authority or default
    is_secure = known.get("dfs.http.policy", "").upper() == "HTTPS_ONLY"
    key = f"dfs.namenode.{'https' if is_secure else 'http'}-address"
    ids = [one.strip() for one in known.get(f"dfs.ha.namenodes.{name}", "").split(",") if one.strip()]
    found = []
    for end in [f".{name}.{one}" for one in ids] or [""]:
        rpc = known.get(f"dfs.namenode.rpc-address{end}", "") if ids else name
        # Settings without a cluster name apply only to the default file system.
        given = known.get(f"{key}{end}", "") if ids or name == default else ""
        host, port = _host_and_port(given or rpc)
        if host in ("", "0.0.0.0", "[::]"):  # noqa: S104 - a setting of the server, not bound here
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
        raise BridgeError("failed", f"its list of blocks exceeds {HDFS_BLOCKS_MAX_BYTES} bytes")
    if status == 401:
        reason = "its NameNode requires a Kerberos login for block locations, which is not supported"
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
    scheme = "https" if name_node.is_secure else "http"
    url = f"{scheme}://{name_node.address}/webhdfs/v1/{urllib.parse.quote(path)}?{query}"
    with missing_packages_explained():
        import httpx

    try:
        context = ssl.create_default_context()
        with (
            httpx.Client(verify=context, trust_env=False, timeout=patience_s) as client,
            client.stream("GET", url, headers={"Accept-Encoding": "identity"}) as answer,
        ):
            content = bytearray()
            for part in answer.iter_raw():
                content += part
                if len(content) > HDFS_BLOCKS_MAX_BYTES:
                    break
            return answer.status_code, bytes(content)
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        reason = f"its NameNode does not respond at {name_node.address}: {str(error) or type(error).__name__}"
        raise BridgeError("timeout" if isinstance(error, httpx.TimeoutException) else "unreachable", reason) from error


def _web_refusal(answer: object, status: int) -> BridgeError:
    told = answer.get("RemoteException") if isinstance(answer, dict) else None
    if not isinstance(told, dict):
        return BridgeError("failed", f"{_WRONG_ANSWER} (status {status})")
    java = str(told.get("exception", ""))
    kind: Kind = JAVA_KINDS.get(java, "refused")
    words = f"{java}: {str(told.get('message', '')).partition(chr(10))[0]}"
    return BridgeError(kind, f"{words}; {HINTS[kind]}" if kind in HINTS else words)
