"""Files of any protocol that fsspec supports: `gs://`, `sftp://`, `memory://`, `github://`, or `fsspec+<any URL>`.

Credentials and options are configured through fsspec, in ``~/.config/fsspec`` or with variables
``FSSPEC_<PROTOCOL>_<OPTION>``.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence

from branchline.base.limits import HDFS_WEB_PORT
from branchline.reading.bridge.bridged_file import (
    Answer,
    BridgedFile,
    BridgeError,
    LibraryObject,
    ListedFile,
    WantedRange,
)

PREFIX = "fsspec+"
# Keys in fsspec's file info whose values change when the file is rewritten.
VERSIONS = ("etag", "e_tag", "md5hash", "md5", "sha", "checksum", "generation", "mtime", "last_modified", "modified",
            "lastmodified", "updated")  # fmt: skip
# Phrases in exceptions of cloud clients (other than OSError) that mean missing permissions.
CLOSED = ("403", "401", "forbidden", "unauthorized", "access denied", "credentials")


def open_by_fsspec(url: str, _patience_s: float) -> BridgedFile:
    """Open the file at ``url``.

    Raises BridgeError.
    """
    system, path, info = _query(url, lambda system, path: system.info(path))
    from fsspec.asyn import AsyncFileSystem  # fsspec is there

    if info.get("type") == "directory":
        raise BridgeError("not a file", "it is a directory, not a file")
    size = info.get("size")
    if not isinstance(size, int) or size < 0:
        raise BridgeError("refused", "the storage does not report its size; copy it to a local disk")
    kind = _InParallel if isinstance(system, AsyncFileSystem) else _OneByOne
    known = {str(key).lower().replace("-", "_"): info[key] for key in info}
    found = [f"{key}={known[key]}" for key in VERSIONS if known.get(key) not in (None, "")]
    # For local files, "created" is the inode change time.
    if not found and known.get("created"):
        found = [f"created={known['created']}"]
    identity = f"{size} {' '.join(found)}" if found else None
    # The name consists of the protocol and the host or bucket. For a chain, use the last link, which may be a path.
    scheme, is_url, rest = url.removeprefix(PREFIX).rpartition("::")[2].partition("://")
    element = f"{scheme}://{rest.partition('/')[0].rpartition('@')[2]}" if is_url else "file://"
    return kind(system, path, element, size, identity)


def _query(url: str, query: Callable[[LibraryObject, str], Answer]) -> tuple[LibraryObject, str, Answer]:
    """Return the file system and path of a URL, and the result of ``query(system, path)``. Raises BridgeError."""
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise BridgeError(
            "unknown", f"{error_text(error)}; such files are read through fsspec: pip install 'branchline[fsspec]'"
        ) from error
    try:
        system, path = url_to_fs(url.removeprefix(PREFIX))
        return system, path, query(system, path)
    except Exception as error:
        raise as_bridge_error(error) from error


def list_by_fsspec(url: str, _patience_s: float) -> list[ListedFile]:
    """Return the entries of the folder at ``url``.

    Raises BridgeError.
    """
    _, path, found = _query(_with_port(url), lambda system, path: system.ls(path, detail=True))
    own = str(path).rstrip("/")
    inside = [(str(one["name"]).rstrip("/"), one) for one in found]
    return [
        ListedFile(name.rpartition("/")[2], one.get("type") == "directory", one.get("size"))
        for name, one in inside
        if name != own
    ]


def _with_port(url: str) -> str:
    """Add Hadoop's current default port to a WebHDFS URL without a port, because fsspec uses the one of Hadoop 2."""
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    if scheme.lower() != "webhdfs" or authority.rpartition("@")[2].rpartition(":")[1] or _has_options("webhdfs"):
        return url
    return f"{scheme}://{authority}:{HDFS_WEB_PORT}{slash}{path}"


def _has_options(protocol: str) -> bool:
    """Whether fsspec has configured options for a protocol."""
    try:
        from fsspec.config import conf
    except ImportError:
        return False
    return bool(conf.get(protocol))


class _InParallel:
    """A file on an asynchronous file system, which reads all ranges concurrently."""

    def __init__(self, system: LibraryObject, path: str, name: str, size: int, identity: str | None) -> None:
        self.name = name
        self.size_bytes = size
        self.identity = identity
        self._system = system
        self._path = path

    def read(self, wanted: Sequence[WantedRange], patience_s: float) -> int:  # noqa: ARG002 - fsspec has no timeouts
        starts = [one.offset for one in wanted]
        ends = [one.offset + one.length for one in wanted]
        try:
            found = self._system.cat_ranges([self._path] * len(wanted), starts, ends, on_error="raise")
            for one, content in zip(wanted, found, strict=True):
                one.append(bytes(content))
        except Exception as error:
            raise as_bridge_error(error) from error
        return len(wanted)


class _OneByOne:
    """A file on a synchronous file system. It is opened only once, since opening usually takes several requests."""

    def __init__(self, system: LibraryObject, path: str, name: str, size: int, identity: str | None) -> None:
        self.name = name
        self.size_bytes = size
        self.identity = identity
        self._lock = threading.Lock()
        # Keep a reference: a file system for an archive closes the archive when it is garbage-collected.
        self._system = system
        try:
            # Disable fsspec's cache, since the engine has its own.
            self._file = system.open(path, "rb", cache_type="none")
        except Exception as error:
            raise as_bridge_error(error) from error

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._file.close()

    def read(self, wanted: Sequence[WantedRange], patience_s: float) -> int:
        if not self._lock.acquire(timeout=patience_s):
            raise BridgeError("timeout", "an earlier read of the file is still running")
        try:
            for one in wanted:
                self._read(one)
        except Exception as error:
            raise as_bridge_error(error) from error
        finally:
            self._lock.release()
        return len(wanted)

    def _read(self, wanted: WantedRange) -> None:
        self._file.seek(wanted.offset)
        came = 0
        while came < wanted.length:
            more = bytes(self._file.read(wanted.length - came))
            if not more:
                end = wanted.offset + came
                raise BridgeError("changed", f"the file was truncated to {end} bytes after it was opened")
            wanted.append(more)
            came += len(more)


def as_bridge_error(error: Exception) -> BridgeError:
    """Convert an exception of fsspec or one of its libraries to a BridgeError."""
    if isinstance(error, BridgeError):
        return error
    if isinstance(error, FileNotFoundError):
        if getattr(error.__cause__, "status", None) in (401, 403):  # fsspec reports HTTP errors as FileNotFoundError
            return BridgeError("permission", f"permission denied: {error_text(error.__cause__ or error)}")
        return BridgeError("missing", "there is no such file")
    if isinstance(error, IsADirectoryError):
        return BridgeError("not a file", "it is a directory, not a file")
    if isinstance(error, PermissionError):
        return BridgeError("permission", f"permission denied: {error_text(error)}")
    if isinstance(error, TimeoutError | asyncio.TimeoutError):
        return BridgeError("timeout", f"no answer in time: {error_text(error)}")
    if isinstance(error, ConnectionError):
        return BridgeError("unreachable", error_text(error))
    if isinstance(error, ImportError):
        return BridgeError("unknown", f"fsspec needs another package for this file: {error_text(error)}")
    if isinstance(error, ValueError) and "rotocol" in str(error):
        return BridgeError("unknown", f"fsspec does not support this protocol: {error_text(error)}")
    if any(word in error_text(error).lower() for word in CLOSED):
        return BridgeError("permission", f"permission denied: {error_text(error)}")
    if isinstance(error, OSError):
        return BridgeError("failed", error_text(error))
    return BridgeError("refused", error_text(error))


def error_text(error: BaseException) -> str:
    """Return the class name and message of an exception."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
