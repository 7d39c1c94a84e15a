"""Files at XRootD servers that want a login which only XRootD's own client has: X.509 and VOMS (`gsi`), Kerberos.

Its package (``pip install 'branchline[xrootd]'``) takes proxies, certificates and tickets where its users expect it to.
"""

from __future__ import annotations

import math
import re
import socket
from collections.abc import Iterator, Sequence

from branchline.base.limits import CONNECT_WAIT_S
from branchline.reading.access import ByteRange
from branchline.reading.bridge.bridged_file import BridgedFile, BridgeError, Kind, LibraryObject, WantedRange

# Limits of one vector read by the servers' defaults; the client does not split larger ones.
RANGES_MAX = 1024
RANGE_BYTES_MAX = 2_097_136
CALL_BYTES_MAX = 8 * 2**20
# ``[::ffff:10.0.0.1]``, ``[::10.0.0.1]``.
MAPPED_ADDRESS = re.compile(r"^\[::(?:ffff:)?(\d+\.\d+\.\d+\.\d+)\]")
# XRootD's numbers of errors; larger ones are those of the system.
NOT_FOUND, NOT_AUTHORIZED, IS_DIRECTORY = 3011, 3010, 3016
# Codes of its client (XrdClStatus.hh): login or authentication failed; a wait ended; a connection broke.
LOGIN_FAILED = (203, 204)
TIMED_OUT = (103, 206)
DISCONNECTED = (102, 104, 105, 107, 108, 109, 207)


def open_by_xrootd(url: str, patience_s: float) -> BridgedFile:
    """The file at ``url``.

    Raises BridgeError.
    """
    try:
        from XRootD import client
    except ImportError as error:
        needed = "the login by gsi or krb5 needs the package xrootd, which is not installed"
        reason = f"{needed}: pip install 'branchline[xrootd]'"
        raise BridgeError("unknown", reason) from error
    package: LibraryObject = client  # some of its functions have types, most have none
    file = package.File()
    status, _ = file.open(url, timeout=_whole(patience_s))
    _check(status, "open")
    status, info = file.stat(timeout=_whole(patience_s))
    _check(status, "stat")
    return _PackageFile(file, url, info)


def locate_by_xrootd(url: str, patience_s: float) -> list[str]:
    """The URLs of a file at each data server that has it, sorted, as `xrdfs locate` finds them.

    Raises BridgeError.
    """
    try:
        from XRootD import client
        from XRootD.client.flags import OpenFlags
    except ImportError as error:
        reason = "locating files needs the package xrootd, which is not installed: pip install 'branchline[xrootd]'"
        raise BridgeError("unknown", reason) from error
    package: LibraryObject = client
    address = package.URL(url)
    _check_connection(address.hostname, address.port)
    status, found = package.FileSystem(url).deeplocate(address.path, OpenFlags.NONE, timeout=_whole(patience_s))
    _check(status, "locate")
    scheme, query = url.partition("://")[0], url.partition("?")[2]
    end = f"/{address.path}" + (f"?{query}" if query else "")
    return sorted(f"{scheme}://{_address(one.address)}{end}" for one in found)


def _check_connection(host: str, port: int) -> None:
    """Raises BridgeError if no connection is possible: the client tries again for minutes, and ignores Ctrl-C."""
    try:
        # The client has IPv6 addresses in brackets.
        socket.create_connection((host.strip("[]"), port), CONNECT_WAIT_S).close()
    except OSError as error:
        kind: Kind = "timeout" if isinstance(error, TimeoutError) else "unreachable"
        raise BridgeError(kind, f"no connection to {host}:{port}: {error.strerror or error}") from error


def _address(found: str) -> str:
    """Host and port as a URL has them: servers call old addresses by new ones."""
    return MAPPED_ADDRESS.sub(r"\1", found)


def _whole(seconds: float) -> int:
    return max(1, math.ceil(seconds))


def _check(status: LibraryObject, doing: str) -> None:
    """Raises BridgeError unless all went well."""
    if status.ok:
        return
    kind: Kind = "refused"
    if status.errno == NOT_FOUND:
        raise BridgeError("missing", "there is no such file")
    if status.errno == IS_DIRECTORY:
        kind = "not a file"
    elif status.errno == NOT_AUTHORIZED or status.code in LOGIN_FAILED:
        kind = "permission"
    elif status.code in TIMED_OUT:
        kind = "timeout"
    elif status.code in DISCONNECTED:
        kind = "unreachable"
    raise BridgeError(kind, f"{doing}, by the package xrootd: {status.message}")


class _PackageFile:
    """A file that XRootD's client has open."""

    def __init__(self, file: LibraryObject, url: str, info: LibraryObject) -> None:
        scheme, _, rest = url.partition("://")
        self.name = f"{scheme}://{rest.partition('/')[0].rpartition('@')[2]}"
        self.size_bytes = int(info.size)
        self.identity = f"{info.size} {info.id} {info.modtime}"
        self._file = file

    def read(self, wanted: Sequence[WantedRange], patience_s: float) -> int:
        ranges = [ByteRange(one.offset, one.length) for one in wanted]
        timeout = _whole(patience_s)
        found: dict[ByteRange, bytes] = {}
        calls = 0
        for together in _calls(ranges):
            calls += 1
            if len(together) == 1:
                status, found[together[0]] = self._file.read(*together[0], timeout=timeout)
                _check(status, "read")
                continue
            status, answer = self._file.vector_read(together, timeout=timeout)
            _check(status, "vector read")
            found.update(zip(together, (chunk.buffer for chunk in answer.chunks), strict=True))
        for one, place in zip(wanted, ranges, strict=True):
            one.append(found[place])
        return calls


def _calls(ranges: Sequence[ByteRange]) -> Iterator[list[ByteRange]]:
    """The ranges of each call: as many as a vector read takes, none twice, since the client could not assign the
    answers. A range that is too long for a vector read is read alone.
    """
    together: list[ByteRange] = []
    bytes_count = 0
    for one in dict.fromkeys(ranges):
        if one.length > RANGE_BYTES_MAX:
            yield [one]
            continue
        if len(together) == RANGES_MAX or (together and bytes_count + one.length > CALL_BYTES_MAX):
            yield together
            together, bytes_count = [], 0
        together.append(one)
        bytes_count += one.length
    if together:
        yield together
