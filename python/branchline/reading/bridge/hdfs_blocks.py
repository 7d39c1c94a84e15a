"""The machines that hold the blocks of files of HDFS, as NameNodes tell them by WebHDFS.

The package `hdfs-native` does not tell them. See "Get File Block Locations" in Hadoop's documentation of WebHDFS.
"""

from __future__ import annotations

import getpass
import http.client
import json
import os
import urllib.parse
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from branchline.base.limits import HDFS_BLOCKS_MAX_BYTES, HDFS_WEB_PORT, HDFS_WEB_TLS_PORT
from branchline.reading.bridge.bridged_file import BridgeError, Kind, in_time
from branchline.reading.bridge.hdfs_files import HINTS, JAVA_KINDS, settings_in

_WRONG_ANSWER = "its NameNode answered what is no list of blocks"


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
    name_nodes = _web_addresses(authority, settings_in())
    last: BridgeError | None = None
    for one in name_nodes:
        try:
            return in_time(partial(_held, one, path, patience_s), patience_s, f"the NameNode at {one.address}")
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


def _held(name_node: _WebAddress, path: str, patience_s: float) -> list[HeldBytes]:
    status, content = _answer(name_node, path, patience_s)
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
        raise _refusal(answer, status)
    held: dict[str, int] = {}
    try:
        for block in answer["BlockLocations"]["BlockLocation"]:
            for host in block["hosts"]:
                held[str(host)] = held.get(str(host), 0) + int(block["length"])
    except (KeyError, TypeError, ValueError):
        raise BridgeError("failed", _WRONG_ANSWER) from None
    return [HeldBytes(host, size) for host, size in sorted(held.items(), key=lambda one: (-one[1], one[0]))]


def _answer(name_node: _WebAddress, path: str, patience_s: float) -> tuple[int, bytes]:
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


def _refusal(answer: object, status: int) -> BridgeError:
    told = answer.get("RemoteException") if isinstance(answer, dict) else None
    if not isinstance(told, dict):
        return BridgeError("failed", f"{_WRONG_ANSWER} (status {status})")
    java = str(told.get("exception", ""))
    kind: Kind = JAVA_KINDS.get(java, "refused")
    words = f"{java}: {str(told.get('message', '')).partition(chr(10))[0]}"
    return BridgeError(kind, f"{words}; {HINTS[kind]}" if kind in HINTS else words)
