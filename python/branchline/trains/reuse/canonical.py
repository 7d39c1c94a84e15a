"""Digests of values, such as parameters and globals of wagons. Equal values have the same digest in every process.

The digest is computed from a canonical form of the value. Pickles are not canonical: they depend on the order of sets,
which differs between processes.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import inspect
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from types import BuiltinFunctionType, FunctionType, GetSetDescriptorType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

import numpy as np

from branchline.base.quantities import MIB
from branchline.reading.datasets.identity import content_identity
from branchline.trains.wagons.loaded_files import LoadedFile, LoadedSource, source_of

# If a value names a file, the digest covers the file's content up to this size. Larger files are identified by
# `content_identity`.
FILE_HASHED_MAX_BYTES = 64 * MIB
# Libraries whose arrays contain only numbers. Arrays of other libraries may contain more, such as units.
_ARRAYS_KNOWN = {"numpy", "boost_histogram"}
_SIMPLE = (type(None), bool, int, float, complex, bytes, range)


class UnknownValueError(ValueError):
    """A value whose content cannot be determined. The message describes the value and where it was found."""


# A callback for the code of a class, function or module, which the digest itself does not cover. Its arguments are the
# module, and the name of a class or function in the module and its value, or None for the whole module.
CodeUsed = Callable[[ModuleType, str | None, object], None]

#: Flags of classes in CPython's object.h: _HEAP_TYPE for classes created at run time, _IMMUTABLE_TYPE for immutable
#: classes. Since Python 3.12, classes implemented in C are also created at run time.
_HEAP_TYPE, _IMMUTABLE_TYPE = 1 << 9, 1 << 8
_POINTER_BYTES = 8


class _Plain:
    """An empty class, whose instances have only the attributes that every Python object has."""


class Canonical:
    """A digest of values. ``uses`` is called for every class, function and module to which the values refer."""

    def __init__(self, uses: CodeUsed) -> None:
        self._digest = hashlib.sha256()
        self._uses = uses
        self._open: set[int] = set()
        #: Identities, by path, of the files that are named by strings in the values.
        self.files: dict[str, str] = {}
        #: Modules and names of functions that load files for `branchline.loaded`.
        self.loaders: set[tuple[str, str]] = set()

    def hexdigest(self) -> str:
        """Return the digest of everything added so far."""
        return self._digest.hexdigest()

    def add(self, value: object, where: str) -> None:
        """Add a value to the digest. ``where`` describes the value in messages. Raises UnknownValueError."""
        if isinstance(value, _SIMPLE) and type(value).__module__ == "builtins":
            self._put(type(value).__name__, repr(value).encode())
        elif type(value) is str or isinstance(value, PurePath):
            text = os.fspath(value)
            self._put("str", text.encode(errors="surrogatepass"))
            file = named_file(text)
            if file is not None:
                self.files[file.path] = file.identity
                self._put("file", file.digest.encode())
        elif id(value) in self._open:
            raise UnknownValueError(f"{where} refers to itself")
        else:
            self._open.add(id(value))
            try:
                self._add_collection(value, where)
            finally:
                self._open.discard(id(value))

    def _put(self, kind: str, content: bytes) -> None:
        self._digest.update(f"<{kind}:{len(content)}>".encode() + content)

    def _add_collection(self, value: Any, where: str) -> None:
        kind = type(value)
        if kind in (list, tuple):
            self._put(kind.__name__, str(len(value)).encode())
            for index, one in enumerate(value):
                self.add(one, f"{where}[{index}]")
        elif kind in (set, frozenset):
            self._put(kind.__name__, "".join(sorted(self._digest_of(one, where) for one in value)).encode())
        elif kind is dict or (isinstance(value, Mapping) and kind.__module__ in ("collections", "types")):
            self._put(kind.__name__, str(len(value)).encode())
            for key, one in value.items():
                self.add(key, f"a key of {where}")
                self.add(one, f"{where}[{key!r}]")
        elif isinstance(value, np.ndarray | np.generic | np.dtype):
            self._add_numpy(value, where)
        elif isinstance(value, ModuleType):
            self._put("module", value.__name__.encode())
            self._uses(value, None, None)
        elif isinstance(value, type | FunctionType | BuiltinFunctionType | np.ufunc):
            self._add_code(value, where)
        elif isinstance(value, MethodType):
            self._put("method", value.__func__.__qualname__.encode())
            self.add(value.__self__, where)
        else:
            self._add_object(value, where)

    def _digest_of(self, value: object, where: str) -> str:
        other = Canonical(self._uses)
        other.add(value, where)
        self.files |= other.files
        self.loaders |= other.loaders
        return other.hexdigest()

    def _add_numpy(self, value: object, where: str) -> None:
        if isinstance(value, np.dtype):
            self._put("dtype", repr(value.descr).encode())
            return
        if type(value).__module__.partition(".")[0] not in _ARRAYS_KNOWN:
            kind = f"{type(value).__module__}.{type(value).__qualname__}"
            raise UnknownValueError(f"{where} is a {kind}, whose content is unknown")
        array = np.asarray(value)
        if array.dtype.hasobject:
            raise UnknownValueError(f"{where} is an array of objects")
        self._put("array", f"{type(value).__name__}{array.dtype.descr}{array.shape}".encode())
        self._put("content", np.ascontiguousarray(array).tobytes())
        if isinstance(value, np.ma.MaskedArray):
            self._put("mask", np.ascontiguousarray(np.ma.getmaskarray(value)).tobytes())
            self._put("fill", np.asarray(value.fill_value).tobytes())

    def _add_code(self, value: Any, where: str) -> None:
        """Add the name of a class or function to the digest, and call ``uses`` for its code."""
        name = getattr(value, "__qualname__", value.__name__)
        module = sys.modules.get(getattr(value, "__module__", None) or "")
        if isinstance(value, np.ufunc | BuiltinFunctionType) and module is None:
            module = sys.modules["numpy" if isinstance(value, np.ufunc) else "builtins"]
        if module is None or "<" in name:
            what = "a lambda: use def" if "<lambda>" in name else "defined inside a function: define it outside"
            raise UnknownValueError(f"{where} is {what}" if module else f"{where} is from a module that does not exist")
        self._put("code", f"{module.__name__}:{name}".encode())
        self._uses(module, name.partition(".")[0], value)

    def _add_object(self, value: Any, where: str) -> None:
        kind = type(value)
        library = kind.__module__.partition(".")[0]
        if isinstance(value, LoadedFile):
            self._add_loaded(source_of(value), where)
        elif isinstance(value, enum.Enum):
            self._add_code(kind, where)
            self._put("enum", value.name.encode())
        elif isinstance(value, logging.Logger | logging.LoggerAdapter):
            self._put("logger", b"")
        elif isinstance(value, re.Pattern):
            self._put("pattern", repr((value.pattern, value.flags)).encode())
        elif isinstance(value, functools.partial):
            self.add([value.func, list(value.args), value.keywords], where)
        elif (function := _function_in(value)) is not None:
            self._add_code(function, where)
        elif library in ("hist", "boost_histogram"):
            self._add_histogram(value, where)
        elif library == "awkward" and kind.__name__ == "Array":
            import awkward as ak

            form, length, buffers = ak.to_buffers(ak.to_packed(value))
            self._put("awkward", f"{form.to_json()}{length}".encode())
            for name in sorted(buffers):
                self._add_numpy(np.asarray(buffers[name]), where)
        elif _is_plain_object(value):
            self._add_code(kind, where)
            state = dict(sorted(attributes_of(value).items()))
            for name, one in state.items():
                self._put("attribute", name.encode())
                self.add(one, f"{where}.{name}")
        else:
            what = f"{where} is a {kind.__module__}.{kind.__qualname__}, whose content is unknown"
            raise UnknownValueError(f"{what}: load it with branchline.loaded(LOADER, FILE), or create it in setup()")

    def _add_loaded(self, source: LoadedSource, where: str) -> None:
        self._put("loaded", source.digest.encode())
        self.add([source.loader, list(source.arguments), dict(source.options)], where)
        if isinstance(source.loader, FunctionType):
            self.loaders.add((source.loader.__module__, source.loader.__qualname__))
        with suppress(OSError):
            self.files[source.path] = content_identity(source.path)

    def _add_histogram(self, value: Any, where: str) -> None:
        self._put("histogram", f"{type(value).__name__}".encode())
        if hasattr(value, "axes"):
            self._put("storage", repr(value.storage_type).encode())
            for axis in value.axes:
                self._add_histogram(axis, where)
            self._add_numpy(value.view(flow=True), where)
        elif hasattr(value, "edges") or hasattr(value, "bin"):
            self._put("axis", repr(value).encode())
            self.add([value.bin(index) for index in range(len(value))], where)
        else:
            raise UnknownValueError(f"{where} is a {type(value).__name__}, whose content is unknown")


def functions_behind(value: Any) -> Iterator[FunctionType]:
    """Yield a function, or the functions in a property, class method, or decorated, cached or compiled function."""
    parts = ["__wrapped__", "__func__", "py_func", "func", "fget", "fset", "fdel"]
    if isinstance(value, FunctionType):
        yield value
        parts = ["__wrapped__"]
    for name in parts:
        inner = inspect.getattr_static(value, name, None)
        inner = getattr(value, name, None) if isinstance(inner, MemberDescriptorType | GetSetDescriptorType) else inner
        if isinstance(inner, FunctionType):
            yield from functions_behind(inner)


def _function_in(value: Any) -> FunctionType | None:
    """Return the function that Numba compiles or whose values `functools.lru_cache` caches; None for other objects."""
    is_cached = isinstance(value, functools._lru_cache_wrapper)
    function = getattr(value, "__wrapped__" if is_cached else "py_func", None)
    return function if isinstance(function, FunctionType) else None


def attributes_of(value: object) -> dict[str, object]:
    """Return the attributes of an object of a Python class: those in its ``__dict__`` and in its slots."""
    found = dict(getattr(value, "__dict__", {}))
    for base in type(value).__mro__:
        found |= {name: getattr(value, name) for name in _slots_of(base) if hasattr(value, name)}
    return found


def _slots_of(kind: type) -> list[str]:
    """Return the names of the slots that a class itself defines. Slots of its bases are left out."""
    slots = kind.__dict__.get("__slots__", ())
    names = [one for one in ((slots,) if isinstance(slots, str) else slots) if one not in ("__dict__", "__weakref__")]
    # Python mangles private names (language reference, 6.2.1).
    own = kind.__name__.lstrip("_")
    return [f"_{own}{one}" if one.startswith("__") and not one.endswith("__") else one for one in names]


@dataclass(frozen=True)
class NamedFile:
    """A file named by a string: its absolute path, an identity that changes with its content, and a digest of the
    content.
    """

    path: str
    identity: str
    digest: str


def named_file(text: str, folder: str = "") -> NamedFile | None:
    """Return the file named by a string, relative to the working directory or to ``folder``; None if no such file
    exists.

    The file may affect a result, for example if it contains scale factors.
    """
    if not text or len(text) > 4096 or "\n" in text or "\0" in text or text in (".", "..", "/"):
        return None
    for path in (Path(text), Path(folder) / text) if folder else (Path(text),):
        try:
            if not path.is_file():
                continue
            full = os.path.abspath(path)
            # Determine the identity before reading the content, so that a change in between is noticed.
            identity = content_identity(full)
            if path.stat().st_size > FILE_HASHED_MAX_BYTES:
                return NamedFile(full, identity, identity)
            return NamedFile(full, identity, hashlib.sha256(path.read_bytes()).hexdigest())
        except OSError:
            continue
    return None


def _is_plain_object(value: object) -> bool:
    """Return whether an object is fully described by its attributes: its class and all bases except ``object`` must be
    written in Python.
    """
    kind = type(value)
    for base in kind.__mro__[:-1]:
        if not base.__flags__ & _HEAP_TYPE or base.__flags__ & _IMMUTABLE_TYPE:
            return False
        path = getattr(sys.modules.get(base.__module__), "__file__", None)
        if base.__module__ in sys.builtin_module_names or (path is not None and not path.endswith(".py")):
            return False
    # Instances of a C class are larger than its slots require, even if its flags look like those of a Python class.
    slots = sum(len(_slots_of(base)) for base in kind.__mro__)
    return kind.__itemsize__ == 0 and kind.__basicsize__ <= _Plain.__basicsize__ + _POINTER_BYTES * slots
