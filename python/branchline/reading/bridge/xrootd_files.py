"""Files on XRootD servers whose login requires XRootD's own client: X.509 and VOMS (`gsi`), Kerberos.

The client's Python package (``pip install 'branchline[xrootd]'``) finds proxies, certificates and tickets in their
default locations.
"""

from __future__ import annotations

import math
import re
import socket
from collections.abc import Iterator, Sequence

from branchline.base.limits import CONNECT_WAIT_S
from branchline.base.quantities import MIB
from branchline.reading.access import ByteRange
from branchline.reading.bridge.bridged_file import BridgedFile, BridgeError, Kind, LibraryObject, WantedRange

# Maximum number of ranges in a vector read (default limit of XRootD servers). The client does not split larger reads.
RANGES_MAX = 1024
# Maximum size of a range in a vector read (default limit of XRootD servers).
RANGE_BYTES_MAX = 2_097_136
# Maximum total size of a vector read.
CALL_BYTES_MAX = 8 * MIB
# Matches IPv4 addresses that are mapped to IPv6: ``[::ffff:10.0.0.1]``, ``[::10.0.0.1]``.
MAPPED_ADDRESS = re.compile(r"^\[::(?:ffff:)?(\d+\.\d+\.\d+\.\d+)\]")
# Error codes of XRootD servers.
NOT_FOUND, NOT_AUTHORIZED, IS_DIRECTORY = 3011, 3010, 3016
# Status codes of XRootD's client (XrdClStatus.hh) for a failed login or authentication.
LOGIN_FAILED = (203, 204)
# Status codes of XRootD's client for a timeout.
TIMED_OUT = (103, 206)
# Status codes of XRootD's client for a failed or lost connection.
DISCONNECTED = (102, 104, 105, 107, 108, 109, 207)


def open_by_xrootd(url: str, patience_s: float) -> BridgedFile:
    """Open the file at ``url``.

    Raises BridgeError.
    """
    try:
        from XRootD import client
    except ImportError as error:
        needed = "logging in with gsi or krb5 needs the package xrootd, which is not installed"
        reason = f"{needed}: pip install 'branchline[xrootd]'"
        raise BridgeError("unknown", reason) from error
    package: LibraryObject = client  # only partly typed
    file = package.File()
    status, _ = file.open(url, timeout=_whole(patience_s))
    _check(status, "open")
    status, info = file.stat(timeout=_whole(patience_s))
    _check(status, "stat")
    return _PackageFile(file, url, info)


def locate_by_xrootd(url: str, patience_s: float) -> list[str]:
    """Return the sorted URLs of a file on all data servers that store it, like `xrdfs locate`.

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
    # Convert host and port to the form used in URLs: servers report IPv4 addresses as IPv6.
    servers = [MAPPED_ADDRESS.sub(r"\1", one.address) for one in found]
    return sorted(f"{scheme}://{server}{end}" for server in servers)


def _check_connection(host: str, port: int) -> None:
    """Raise BridgeError if no connection is possible. Without this check, the client retries for minutes.

    The client also ignores Ctrl-C during these retries.
    """
    try:
        # The client returns IPv6 addresses in brackets.
        socket.create_connection((host.strip("[]"), port), CONNECT_WAIT_S).close()
    except OSError as error:
        kind: Kind = "timeout" if isinstance(error, TimeoutError) else "unreachable"
        raise BridgeError(kind, f"no connection to {host}:{port}: {error.strerror or error}") from error


def _whole(seconds: float) -> int:
    return max(1, math.ceil(seconds))


def _check(status: LibraryObject, doing: str) -> None:
    """Raise BridgeError if the status says that an operation failed."""
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
    raise BridgeError(kind, f"{doing} failed in the package xrootd: {status.message}")


class _PackageFile:
    """A file opened by XRootD's client."""

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
    """Group ranges into calls that respect the limits of a vector read.

    Duplicates are removed, because the client cannot assign the results to them. Ranges that are too long for a vector
    read get their own call.
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
