"""Files at any place that fsspec knows: `gs://`, `sftp://`, `memory://`, `github://`, or `fsspec+<any URL of its own>`.

What a place needs (keys, tokens, projects) is set as fsspec has it, in ``~/.config/fsspec`` or in variables
``FSSPEC_<PROTOCOL>_<OPTION>``.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

from branchline.bridge.carried import CarriedFile, CarrierError

PREFIX = "fsspec+"
# What file systems tell of a file that changes when the file does.
VERSIONS = ("etag", "e_tag", "md5hash", "md5", "sha", "checksum", "generation", "mtime", "last_modified", "modified",
            "lastmodified", "updated")  # fmt: skip
# The words of exceptions that are no OSError, as those of clients for clouds, for what is not open to the user.
CLOSED = ("403", "401", "forbidden", "unauthorized", "access denied", "credentials")


def open_by_fsspec(url: str, _patience_s: float) -> CarriedFile:
    """The file at ``url``.

    Raises CarrierError.
    """
    system, path, about = _asked(url, lambda system, path: system.info(path))
    from fsspec.asyn import AsyncFileSystem  # fsspec is there

    if about.get("type") == "directory":
        raise CarrierError("not a file", "it is a directory, not a file")
    size = about.get("size")
    if not isinstance(size, int) or size < 0:
        raise CarrierError("refused", "its place does not say how large it is; copy it to a local disk")
    kind = _InParallel if isinstance(system, AsyncFileSystem) else _OneByOne
    return kind(system, path, _element(url), size, _identity(about, size))


def _asked(url: str, ask: Callable[[Any, str], Any]) -> tuple[Any, str, Any]:
    """The file system of a URL, the path there, and what it answers. Raises CarrierError."""
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise CarrierError("unknown", f"{said(error)}; fsspec is asked: pip install 'branchline[fsspec]'") from error
    try:
        system, path = url_to_fs(url.removeprefix(PREFIX))
        return system, path, ask(system, path)
    except Exception as error:
        raise as_carrier_error(error) from error


def list_by_fsspec(url: str, _patience_s: float) -> list[tuple[str, bool, int | None]]:
    """Name, whether it is a folder, and size of all that is in the folder at ``url``.

    Raises CarrierError.
    """
    _, path, found = _asked(url, lambda system, path: system.ls(path, detail=True))
    own = str(path).rstrip("/")
    inside = [(str(one["name"]).rstrip("/"), one) for one in found]
    return [
        (name.rpartition("/")[2], one.get("type") == "directory", one.get("size"))
        for name, one in inside
        if name != own
    ]


def _element(url: str) -> str:
    """Protocol and host, or bucket."""
    scheme, _, rest = url.removeprefix(PREFIX).rpartition("::")[2].partition("://")
    return f"{scheme}://{rest.partition('/')[0].rpartition('@')[2]}"


def _identity(about: dict[str, Any], size: int) -> str | None:
    known = {str(key).lower().replace("-", "_"): about[key] for key in about}
    found = [f"{key}={known[key]}" for key in VERSIONS if known.get(key) not in (None, "")]
    # On a disk this is when anything about the file was changed.
    if not found and known.get("created"):
        found = [f"created={known['created']}"]
    return f"{size} {' '.join(found)}" if found else None


class _InParallel:
    """A file at a place that is asked for all ranges at once."""

    def __init__(self, system: Any, path: str, name: str, size: int, identity: str | None) -> None:
        self.name = name
        self.size_bytes = size
        self.identity = identity
        self._system = system
        self._path = path

    def read(self, ranges: Sequence[tuple[int, int]], patience_s: float) -> tuple[list[bytes], int]:  # noqa: ARG002 - fsspec has no deadlines
        starts = [offset for offset, _ in ranges]
        ends = [offset + length for offset, length in ranges]
        try:
            found = self._system.cat_ranges([self._path] * len(ranges), starts, ends, on_error="raise")
        except Exception as error:
            raise as_carrier_error(error) from error
        return [bytes(one) for one in found], len(ranges)


class _OneByOne:
    """A file at a place that does one thing at a time: opened once, because most pay for that with several requests."""

    def __init__(self, system: Any, path: str, name: str, size: int, identity: str | None) -> None:
        self.name = name
        self.size_bytes = size
        self.identity = identity
        self._lock = threading.Lock()
        # An archive is closed when nobody has it any more.
        self._system = system
        try:
            # What was read before is kept by us.
            self._file = system.open(path, "rb", cache_type="none")
        except Exception as error:
            raise as_carrier_error(error) from error

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._file.close()

    def read(self, ranges: Sequence[tuple[int, int]], patience_s: float) -> tuple[list[bytes], int]:
        if not self._lock.acquire(timeout=patience_s):
            raise CarrierError("timeout", "an earlier read of the file does not end")
        try:
            return [self._read(offset, length) for offset, length in ranges], len(ranges)
        except Exception as error:
            raise as_carrier_error(error) from error
        finally:
            self._lock.release()

    def _read(self, offset: int, length: int) -> bytes:
        self._file.seek(offset)
        found = bytes(self._file.read(length))
        while len(found) < length:
            more = self._file.read(length - len(found))
            if not more:
                raise CarrierError(
                    "changed", f"the file ends at {offset + len(found)} bytes, and did not when it was opened"
                )
            found += more
        return found


def as_carrier_error(error: Exception) -> CarrierError:
    """What an exception of a library means."""
    if isinstance(error, CarrierError):
        return error
    if isinstance(error, FileNotFoundError):
        if getattr(error.__cause__, "status", None) in (401, 403):  # over HTTP all that is not given is not found
            return CarrierError("permission", f"it may not be read: {said(error.__cause__ or error)}")
        return CarrierError("missing", "there is no such file")
    if isinstance(error, IsADirectoryError):
        return CarrierError("not a file", "it is a directory, not a file")
    if isinstance(error, PermissionError):
        return CarrierError("permission", f"it may not be read: {said(error)}")
    if isinstance(error, TimeoutError | asyncio.TimeoutError):
        return CarrierError("timeout", f"no answer in time: {said(error)}")
    if isinstance(error, ConnectionError):
        return CarrierError("unreachable", said(error))
    if isinstance(error, ImportError):
        return CarrierError("unknown", f"fsspec needs another package for it: {said(error)}")
    if isinstance(error, ValueError) and "rotocol" in str(error):
        return CarrierError("unknown", f"fsspec does not know such files: {said(error)}")
    if any(word in said(error).lower() for word in CLOSED):
        return CarrierError("permission", f"it may not be read: {said(error)}")
    if isinstance(error, OSError):
        return CarrierError("failed", said(error))
    return CarrierError("refused", said(error))


def said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
