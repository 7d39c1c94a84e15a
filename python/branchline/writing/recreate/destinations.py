"""Destinations for ROOT files: a local path, a URL supported by fsspec, or an open Python file."""

from __future__ import annotations

import io
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeGuard

from branchline import _core
from branchline.base.quantities import MIB
from branchline.errors import MissingFileError, MissingPackageError, OptionError, StorageError, TakenNameError
from branchline.writing.columns.output_file import check_root_name

if TYPE_CHECKING:
    import fsspec

_OBJECT_CALLS = ("write", "seek", "tell", "flush")


@dataclass
class Destination:
    """A local file to write: either the destination itself, or a temporary file that `deliver` copies."""

    name: str
    path: Path
    _folder: tempfile.TemporaryDirectory[str] | None = field(default=None, repr=False)

    def is_taken(self) -> bool:
        """Return whether the destination exists. Always False for local paths, which the engine checks itself."""
        return False

    def fetch(self) -> None:
        """Copy the existing file to the temporary folder for an update. Raises MissingFileError and StorageError."""

    def deliver(self) -> None:
        """Copy the closed file to its destination. Raises StorageError."""

    def discard(self) -> None:
        """Remove the temporary folder, if any."""
        if self._folder is not None:
            self._folder.cleanup()


class _Remote(Destination):
    """A file at a URL, which fsspec writes."""

    def is_taken(self) -> bool:
        system, place = _file_system(self.name)
        return bool(system.exists(place))

    def fetch(self) -> None:
        system, place = _file_system(self.name)
        try:
            system.get_file(place, str(self.path))
        except FileNotFoundError as error:
            raise MissingFileError("there is no such file", path=self.name) from error
        except OSError as error:
            raise StorageError(f"cannot read: {error}", path=self.name) from error

    def deliver(self) -> None:
        system, place = _file_system(self.name)
        try:
            system.makedirs(place.rpartition("/")[0], exist_ok=True)
            with self.path.open("rb") as source, system.open(place, "wb") as target:
                shutil.copyfileobj(source, target, MIB)
        except OSError as error:
            raise StorageError(f"cannot write: {error}", path=self.name) from error


@dataclass
class _OpenFile(Destination):
    """A Python file that the caller opens and closes."""

    file: IO[bytes] = field(default_factory=io.BytesIO)

    def fetch(self) -> None:
        self.file.seek(0)
        with self.path.open("wb") as target:
            shutil.copyfileobj(self.file, target, MIB)

    def deliver(self) -> None:
        self.file.seek(0)
        with self.path.open("rb") as source:
            shutil.copyfileobj(source, self.file, MIB)
        with suppress(AttributeError, io.UnsupportedOperation):
            self.file.truncate()
        self.file.flush()


def _is_file(target: object) -> TypeGuard[IO[bytes]]:
    return all(callable(getattr(target, call, None)) for call in _OBJECT_CALLS)


def destination_of(target: object) -> Destination:
    """Return the destination for a path, URL or open file, and create missing parent folders of a local path.

    Raises OptionError for other targets, and MissingPackageError for a URL if fsspec is not installed.
    """
    if _is_file(target):
        folder, path = _temporary()
        return _OpenFile(str(getattr(target, "name", None) or repr(target)), path, folder, target)
    if not isinstance(target, str | os.PathLike):
        hint = "give a path, a URL, or a file that is open for writing"
        raise OptionError(f"{type(target).__name__} cannot be written to", hint=hint)
    name = os.fspath(target)
    local = _local_path(name)
    check_root_name(name if local is None else local)
    if local is None:
        _file_system(name)
        folder, path = _temporary()
        return _Remote(name, path, folder)
    try:
        local.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot create the folder: {error}", path=str(local)) from error
    return Destination(str(local), local)


def begin_file(destination: Destination, codec: str, *, replace: bool) -> _core.WritableFile:
    """Create a file. Raises TakenNameError, StorageError and OptionError."""
    hint = "use branchline.recreate to replace it"
    taken = TakenNameError("the file already exists", path=destination.name, hint=hint)
    with _discarded_if_it_fails(destination):
        if not replace and destination.is_taken():
            raise taken
        try:
            return _core.WritableFile(destination.path.absolute(), replace, codec)
        except StorageError as error:
            # Drop the engine's hint if it refers to a command-line option.
            raise (taken if error.hint and "--force" in error.hint else error) from None


def begin_update(destination: Destination, codec: str | None) -> _core.WritableFile:
    """Create a copy of a file for an update. Raises read errors, StorageError and OptionError."""
    with _discarded_if_it_fails(destination):
        destination.fetch()
        return _core.WritableFile.update(destination.path.absolute(), codec)


@contextmanager
def _discarded_if_it_fails(destination: Destination) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        destination.discard()
        if type(error) is ValueError:
            raise OptionError(str(error)) from None
        raise


def _local_path(name: str) -> Path | None:
    """Return the path for a local path or ``file:`` URL; None for any other URL."""
    scheme, is_url, rest = name.partition(":")
    if not is_url or not scheme.isalnum() or len(scheme) == 1:
        return Path(name)
    if scheme.lower() == "file":
        path = re.sub(r"^//(localhost)?(?=/)", "", rest)
        if path.startswith("//") and not path.startswith("///") and rest.startswith("//") and path == rest:
            hint = "write it like file:///data/f.root"
            raise OptionError("a file URL must contain the full path of a local file", path=name, hint=hint)
        return Path(path)
    return None if rest.startswith(("//", ":")) else Path(name)


def _temporary() -> tuple[tempfile.TemporaryDirectory[str], Path]:
    folder = tempfile.TemporaryDirectory(prefix="branchline-")
    return folder, Path(folder.name) / "file.root"


def _file_system(url: str) -> tuple[fsspec.AbstractFileSystem, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        hint = "pip install 'branchline[fsspec]', or write a local file and copy it"
        raise MissingPackageError("writing to a URL needs fsspec", path=url, hint=hint) from error
    try:
        system, place = url_to_fs(url)
        return system, str(place)
    except (ImportError, ValueError) as error:
        raise OptionError(f"fsspec cannot write there: {error}", path=url, hint="write a local file") from error
