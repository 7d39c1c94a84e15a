"""Corrections, models and tables that wagons use: loaded from a file once in each process, and sent with the train."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar, cast

import cloudpickle

from branchline.base.quantities import MIB, size
from branchline.errors import BadFileError, MissingFileError, OptionError, StorageError
from branchline.reading.locations import is_url

T = TypeVar("T")
P = ParamSpec("P")

#: Maximum size of a file that is sent with a wagon: every sub-job that a batch system starts reads its wagons anew.
LOADED_FILE_SENT_MAX_BYTES = 64 * MIB

_NOT_LOADED = object()
_lock = threading.Lock()
#: The objects that this process has loaded, and the locks that are held while they are loaded, by file and loader.
_objects: dict[Hashable, object] = {}
_locks: dict[Hashable, threading.RLock] = {}


def loaded(
    loader: Callable[Concatenate[str, P], T], path: str | os.PathLike[str], *arguments: P.args, **options: P.kwargs
) -> T:
    """Return the object that ``loader(path, *arguments, **options)`` returns, for use in wagons.

    The file is loaded when the object is first used, and once in each process. Wagons of a process share the object, so
    they must not change it. Wherever a train runs, it gets the file: files of up to 64 MiB are sent with the wagon;
    larger ones must have the same path and content on all workers. Other files that the loader reads are not sent.
    Results are reused only if the content of the file, the loader and its arguments are the same.

    The returned object forwards attributes, items, calls and iteration to the loaded object, which is its attribute
    ``__wrapped__``. It cannot be used in arithmetic: ``numpy.asarray`` returns the array in it.

    Raises MissingFileError if the file does not exist, and StorageError if it cannot be read.

    Examples:
        corrections = branchline.loaded(correctionlib.CorrectionSet.from_file, "muons.json.gz")
        corrections["NUM_TightID"].evaluate(eta, pt, "sf")

    """
    text = os.fspath(path)
    if not callable(loader):
        raise OptionError(f"the loader {loader!r:.100} cannot be called", hint="give a function or a class")
    if is_url(text):
        raise OptionError(f"{text!r:.200} is a URL, not the path of a local file", hint="copy the file first")
    full = os.path.abspath(os.path.expanduser(text))
    return cast(T, LoadedFile(LoadedSource(loader, full, arguments, options, _digest_of(full))))


@dataclass
class LoadedSource:
    """A file, identified by the SHA-256 of its content, and the function that loads it. ``content`` is the content that
    was sent with a wagon, None if it was not sent.
    """

    loader: Callable[..., object]
    path: str
    arguments: tuple[object, ...]
    options: Mapping[str, object]
    digest: str
    content: bytes | None = None
    is_received: bool = False

    def load(self) -> object:
        """Return the object, which is loaded if this process has not loaded it."""
        try:
            key: Hashable = self.path, self.digest, cloudpickle.dumps((self.loader, self.arguments, self.options))
        except Exception:  # noqa: BLE001 - any object may refuse to be pickled; then it is not shared
            return self._loaded()
        with _lock:
            own = _locks.setdefault(key, threading.RLock())
        with own:
            if key not in _objects:
                _objects[key] = self._loaded()
            return _objects[key]

    def _loaded(self) -> object:
        if self._is_unchanged():
            return self.loader(self.path, *self.arguments, **self.options)
        if self.content is None:
            raise self._changed()
        with tempfile.TemporaryDirectory(prefix="branchline-loaded-") as folder:
            # Loaders choose the format by the extension.
            copy = Path(folder) / os.path.basename(self.path)
            copy.write_bytes(self.content)
            return self.loader(str(copy), *self.arguments, **self.options)

    def sent(self) -> LoadedSource:
        """Return the source with the content that is sent with a wagon. Raises BadFileError if the file has changed."""
        if self.is_received:
            return self
        if not self._is_unchanged():
            raise self._changed()
        is_small = os.path.getsize(self.path) <= LOADED_FILE_SENT_MAX_BYTES
        content = Path(self.path).read_bytes() if is_small else None
        if content is not None and hashlib.sha256(content).hexdigest() != self.digest:
            raise self._changed()
        return replace(self, content=content, is_received=True)

    def _is_unchanged(self) -> bool:
        return os.path.isfile(self.path) and _digest_of(self.path) == self.digest

    def _changed(self) -> BadFileError:
        what = "has changed since the wagon was created" if os.path.exists(self.path) else "does not exist any more"
        hint = "create the wagon again"
        if self.is_received:
            what = "has another content here" if os.path.exists(self.path) else "does not exist here"
            hint = f"copy it to the worker: files of more than {size(LOADED_FILE_SENT_MAX_BYTES)} are not sent"
        return BadFileError(f"{self.path} {what}", path=self.path, hint=hint)


class LoadedFile:
    """Forwards to the object that is loaded from a file. Its own names are mangled, so that they hide none of it."""

    __slots__ = ("__object", "__source")

    def __init__(self, source: LoadedSource) -> None:
        self.__source, self.__object = source, _NOT_LOADED

    def __get(self) -> object:
        if self.__object is _NOT_LOADED:
            self.__object = self.__source.load()
        return self.__object

    def __reduce__(self) -> tuple[type[LoadedFile], tuple[LoadedSource]]:
        return LoadedFile, (self.__source.sent(),)

    def __repr__(self) -> str:
        source = self.__source
        return f"branchline.loaded({getattr(source.loader, '__qualname__', repr(source.loader))}, {source.path!r})"

    def __getattr__(self, name: str) -> object:
        if name == "__wrapped__":
            return self.__get()
        # Python looks for optional protocols, such as __deepcopy__, which must not load the file.
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return getattr(self.__get(), name)

    # Whether the loaded object has these operations is only known when it is used.

    def __getitem__(self, item: object) -> object:
        return self.__get()[item]  # type: ignore[index]

    def __call__(self, *arguments: object, **options: object) -> object:
        return self.__get()(*arguments, **options)  # type: ignore[operator]

    def __iter__(self) -> Iterator[object]:
        return iter(self.__get())  # type: ignore[call-overload, no-any-return]

    def __len__(self) -> int:
        return len(self.__get())  # type: ignore[arg-type]

    def __contains__(self, item: object) -> bool:
        return item in self.__get()  # type: ignore[operator]

    def __bool__(self) -> bool:
        return bool(self.__get())

    def __array__(self, *arguments: object, **options: object) -> object:
        import numpy as np

        return np.asarray(self.__get(), *arguments, **options)  # type: ignore[call-overload]


def source_of(value: LoadedFile) -> LoadedSource:
    """Return the file and the loader of a loaded object, without loading it."""
    source: LoadedSource = object.__getattribute__(value, "_LoadedFile__source")
    return source


def _digest_of(path: str) -> str:
    """Return the SHA-256 of a file's content. Raises MissingFileError, and StorageError if it cannot be read."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise StorageError(f"{path} is not a regular file", path=path)
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise MissingFileError(f"{path} does not exist", path=path) from None
    except (OSError, ValueError) as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}", path=path) from None
