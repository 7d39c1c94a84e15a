"""Corrections, models and tables that wagons use: loaded from a file once in each process, and sent with the train."""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar, cast

import cloudpickle

from branchline.base.quantities import MIB, size
from branchline.errors import BadFileError, MissingFileError, OptionError

T = TypeVar("T")
P = ParamSpec("P")

#: Maximum size of a file that is sent with a wagon: every sub-job that a batch system starts reads its wagons anew.
LOADED_FILE_SENT_MAX_BYTES = 64 * MIB

_NOT_LOADED = object()
_lock = threading.RLock()
#: The objects that this process has loaded, by content and loader.
_objects: dict[Hashable, object] = {}
#: The folders of files that were sent with a train. They are removed when the process ends.
_folders: list[tempfile.TemporaryDirectory[str]] = []


def loaded(
    loader: Callable[Concatenate[str, P], T], path: str | os.PathLike[str], *arguments: P.args, **options: P.kwargs
) -> T:
    """Return the object that ``loader(path, *arguments, **options)`` returns, for use in wagons.

    The file is loaded when the object is first used, and once in each process. Wagons of a process share the object, so
    they must not change it. Wherever a train runs, it gets the file: files of up to 64 MiB are sent with the wagon;
    larger ones must have the same path and content on all workers. Results are reused only if the content of the file,
    the loader and its arguments are the same.

    The returned object forwards attributes, items and calls to the loaded object, which is its attribute
    ``__wrapped__``. Raises MissingFileError if the file does not exist.

    Examples:
        corrections = branchline.loaded(correctionlib.CorrectionSet.from_file, "muons.json.gz")
        corrections["NUM_TightID"].evaluate(eta, pt, "sf")

    """
    return cast(T, LoadedFile(loader, path, arguments, options))


class LoadedFile:
    """A file, the function that loads it, and the loaded object, to which attributes and items are forwarded."""

    __slots__ = ("_arguments", "_content", "_digest", "_loader", "_object", "_options", "_path")

    def __init__(
        self,
        loader: Callable[..., object],
        path: str | os.PathLike[str],
        arguments: tuple[object, ...],
        options: Mapping[str, object],
    ) -> None:
        if not callable(loader):
            raise OptionError(f"the loader {loader!r:.100} cannot be called", hint="give a function or a class")
        self._loader, self._arguments, self._options = loader, arguments, dict(options)
        self._path = os.path.abspath(os.path.expanduser(os.fspath(path)))
        self._digest = _digest_of(self._path)
        self._content: bytes | None = None
        self._object: object = _NOT_LOADED

    @property
    def __wrapped__(self) -> object:
        """The loaded object, which is loaded on first use."""
        if self._object is _NOT_LOADED:
            self._object = self._load()
        return self._object

    def _load(self) -> object:
        key = (self._digest, cloudpickle.dumps((self._loader, self._arguments, self._options)))
        with _lock:
            if key not in _objects:
                _objects[key] = self._loader(self._local_path(), *self._arguments, **self._options)
            return _objects[key]

    def _local_path(self) -> str:
        """Return the path of the file with the expected content: the original, or a copy of what was sent."""
        if os.path.isfile(self._path) and _digest_of(self._path) == self._digest:
            return self._path
        if self._content is None:
            what = "has changed since the wagon was created" if os.path.exists(self._path) else "does not exist here"
            limit = size(LOADED_FILE_SENT_MAX_BYTES)
            hint = f"copy it to the worker; only files of up to {limit} are sent with a train"
            raise BadFileError(f"{self._path} {what}", path=self._path, hint=hint)
        folder = tempfile.TemporaryDirectory(prefix="branchline-loaded-")
        _folders.append(folder)
        # Loaders choose the format by the extension.
        path = Path(folder.name) / os.path.basename(self._path)
        path.write_bytes(self._content)
        return str(path)

    def parts(self) -> tuple[object, tuple[object, ...], Mapping[str, object], str, str]:
        """Return everything that determines the object: the loader, its arguments and options, the path and the SHA-256
        of the file.
        """
        return self._loader, self._arguments, self._options, self._path, self._digest

    def __reduce__(self) -> tuple[Callable[..., LoadedFile], tuple[object, ...]]:
        content = self._content
        if content is None and os.path.isfile(self._path):
            if os.path.getsize(self._path) <= LOADED_FILE_SENT_MAX_BYTES:
                content = Path(self._path).read_bytes()
            if content is not None and hashlib.sha256(content).hexdigest() != self._digest:
                raise BadFileError(f"{self._path} has changed since the wagon was created", path=self._path)
        return _received, (self._loader, self._path, self._arguments, self._options, self._digest, content)

    def __repr__(self) -> str:
        name = getattr(self._loader, "__qualname__", repr(self._loader))
        return f"branchline.loaded({name}, {self._path!r})"

    def __getattr__(self, name: str) -> object:
        # Python looks for optional protocols, such as __deepcopy__, which must not load the file.
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return getattr(self.__wrapped__, name)

    # Whether the loaded object has these operations is only known when it is used.

    def __getitem__(self, item: object) -> object:
        return self.__wrapped__[item]  # type: ignore[index]

    def __call__(self, *arguments: object, **options: object) -> object:
        return self.__wrapped__(*arguments, **options)  # type: ignore[operator]

    def __iter__(self) -> Iterator[object]:
        return iter(self.__wrapped__)  # type: ignore[call-overload, no-any-return]

    def __len__(self) -> int:
        return len(self.__wrapped__)  # type: ignore[arg-type]

    def __contains__(self, item: object) -> bool:
        return item in self.__wrapped__  # type: ignore[operator]

    def __bool__(self) -> bool:
        return bool(self.__wrapped__)

    def __array__(self, *arguments: object, **options: object) -> object:
        import numpy as np

        return np.asarray(self.__wrapped__, *arguments, **options)  # type: ignore[call-overload]


def _received(
    loader: Callable[..., object],
    path: str,
    arguments: tuple[object, ...],
    options: dict[str, object],
    digest: str,
    content: bytes | None,
) -> LoadedFile:
    """Recreate a pickled object, without looking for the file."""
    made = LoadedFile.__new__(LoadedFile)
    made._loader, made._path, made._arguments, made._options = loader, path, arguments, options
    made._digest, made._content, made._object = digest, content, _NOT_LOADED
    return made


def _digest_of(path: str) -> str:
    """Return the SHA-256 of a file's content. Raises MissingFileError."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise MissingFileError(f"{path} does not exist", path=path) from None
