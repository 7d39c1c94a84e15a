"""Values in one canonical form, whose digest is the same in every process: the parameters of wagons and their globals.

A pickled form would not do: it depends on the order of sets, which differs from process to process.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import logging
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from branchline.reading.datasets.identity import content_identity

# What a digest is made of files whose names are values; of larger ones their identity.
FILE_HASHED_MAX_BYTES = 64 * 2**20
# Those of other libraries may hold more than their numbers, as a unit.
_ARRAYS_KNOWN = {"numpy", "boost_histogram"}
_SIMPLE = (type(None), bool, int, float, complex, bytes)


class UnknownValueError(ValueError):
    """A value whose content cannot be known; the message says where it is and what."""


# Takes an object of a module: a class, a function, or the module itself (None); what it is follows from its code.
CodeUsed = Callable[[ModuleType, str | None], None]

#: Flags of classes (CPython's object.h): made while the program runs, and never changed. Since Python 3.12 classes in C
#: are also made so.
_HEAP_TYPE, _IMMUTABLE_TYPE = 1 << 9, 1 << 8
_POINTER_BYTES = 8


class _Plain:
    """What any object of a class in Python has."""


class Canonical:
    """A digest over values. ``uses`` is called for every class, function and module that values refer to."""

    def __init__(self, uses: CodeUsed) -> None:
        self._digest = hashlib.sha256()
        self._uses = uses
        self._open: set[int] = set()
        #: The files that texts name, by path, with their identities.
        self.files: dict[str, str] = {}

    def hexdigest(self) -> str:
        """The digest of all that was added."""
        return self._digest.hexdigest()

    def add(self, value: Any, where: str) -> None:
        """Adds a value. ``where`` names it in messages. Raises UnknownValueError."""
        if isinstance(value, _SIMPLE) and type(value).__module__ == "builtins":
            self._put(type(value).__name__, repr(value).encode())
        elif type(value) is str or isinstance(value, PurePath):
            self._add_text(os.fspath(value))
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

    def _add_text(self, text: str) -> None:
        self._put("str", text.encode(errors="surrogatepass"))
        file = named_file(text)
        if file is not None:
            self.files[file.path] = file.identity
            self._put("file", file.digest.encode())

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
            self._uses(value, None)
        elif isinstance(value, type | FunctionType | BuiltinFunctionType | np.ufunc):
            self._add_code(value, where)
        elif isinstance(value, MethodType):
            self._put("method", value.__func__.__qualname__.encode())
            self.add(value.__self__, where)
        else:
            self._add_object(value, where)

    def _digest_of(self, value: Any, where: str) -> str:
        other = Canonical(self._uses)
        other.add(value, where)
        self.files |= other.files
        return other.hexdigest()

    def _add_numpy(self, value: Any, where: str) -> None:
        if isinstance(value, np.dtype):
            self._put("dtype", repr(value.descr).encode())
            return
        if type(value).__module__.partition(".")[0] not in _ARRAYS_KNOWN:
            kind = f"{type(value).__module__}.{type(value).__qualname__}"
            raise UnknownValueError(f"{where} is a {kind}, whose content is not known")
        array = np.asarray(value)
        if array.dtype.hasobject:
            raise UnknownValueError(f"{where} is an array of objects")
        self._put("array", f"{type(value).__name__}{array.dtype.descr}{array.shape}".encode())
        self._put("content", np.ascontiguousarray(array).tobytes())
        if isinstance(value, np.ma.MaskedArray):
            self._put("mask", np.ascontiguousarray(np.ma.getmaskarray(value)).tobytes())
            self._put("fill", np.asarray(value.fill_value).tobytes())

    def _add_code(self, value: Any, where: str) -> None:
        """A class or a function: by its name, and the code of its module."""
        name = getattr(value, "__qualname__", value.__name__)
        module = sys.modules.get(getattr(value, "__module__", None) or "")
        if isinstance(value, np.ufunc | BuiltinFunctionType) and module is None:
            module = sys.modules["numpy" if isinstance(value, np.ufunc) else "builtins"]
        if module is None or "<" in name:
            what = "a lambda" if "<lambda>" in name else "made inside of a function"
            raise UnknownValueError(f"{where} is {what}" if module else f"{where} is of a module that is not there")
        self._put("code", f"{module.__name__}:{name}".encode())
        self._uses(module, name.partition(".")[0])

    def _add_object(self, value: Any, where: str) -> None:
        kind = type(value)
        library = kind.__module__.partition(".")[0]
        if isinstance(value, enum.Enum):
            self._add_code(kind, where)
            self._put("enum", value.name.encode())
        elif isinstance(value, logging.Logger | logging.LoggerAdapter):
            self._put("logger", b"")
        elif isinstance(value, re.Pattern):
            self._put("pattern", repr((value.pattern, value.flags)).encode())
        elif isinstance(value, functools.partial):
            self.add([value.func, list(value.args), value.keywords], where)
        elif isinstance(getattr(value, "py_func", None), FunctionType):
            self._add_code(value.py_func, where)
        elif library in ("hist", "boost_histogram"):
            self._add_histogram(value, where)
        elif library == "awkward" and kind.__name__ == "Array":
            self._add_awkward(value, where)
        elif _is_plain_object(value):
            self._add_code(kind, where)
            state = dict(sorted(attributes_of(value).items()))
            for name, one in state.items():
                self._put("attribute", name.encode())
                self.add(one, f"{where}.{name}")
        else:
            raise UnknownValueError(f"{where} is a {kind.__module__}.{kind.__qualname__}, whose content is not known")

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
            raise UnknownValueError(f"{where} is a {type(value).__name__}, whose content is not known")

    def _add_awkward(self, value: Any, where: str) -> None:
        import awkward as ak

        form, length, buffers = ak.to_buffers(ak.to_packed(value))
        self._put("awkward", f"{form.to_json()}{length}".encode())
        for name in sorted(buffers):
            self._add_numpy(np.asarray(buffers[name]), where)


def attributes_of(value: Any) -> dict[str, Any]:
    """What an object of a class in Python holds: its ``__dict__`` and its slots."""
    found = dict(getattr(value, "__dict__", {}))
    for base in type(value).__mro__:
        found |= {name: getattr(value, name) for name in _slots_of(base) if hasattr(value, name)}
    return found


def _slots_of(kind: type) -> list[str]:
    """The names that a class itself keeps outside of the ``__dict__`` of its objects."""
    slots = kind.__dict__.get("__slots__", ())
    names = [one for one in ((slots,) if isinstance(slots, str) else slots) if one not in ("__dict__", "__weakref__")]
    # Python mangles private names, see its reference, 6.2.1.
    own = kind.__name__.lstrip("_")
    return [f"_{own}{one}" if one.startswith("__") and not one.endswith("__") else one for one in names]


@dataclass(frozen=True)
class NamedFile:
    """A file that a text names: its full path, what tells its content from another one, and a digest."""

    path: str
    identity: str
    digest: str


def named_file(text: str, folder: str = "") -> NamedFile | None:
    """Return the file that a text names, relative to the working directory or to a folder; None if there is none.

    A file may hold what a result depends on, as scale factors.
    """
    if not text or len(text) > 4096 or "\n" in text or "\0" in text or text in (".", "..", "/"):
        return None
    for path in (Path(text), Path(folder) / text) if folder else (Path(text),):
        try:
            if not path.is_file():
                continue
            full = os.path.abspath(path)
            # Before the content is read: a change between both is noticed then.
            identity = content_identity(full)
            if path.stat().st_size > FILE_HASHED_MAX_BYTES:
                return NamedFile(full, identity, identity)
            return NamedFile(full, identity, hashlib.sha256(path.read_bytes()).hexdigest())
        except OSError:
            continue
    return None


def _is_plain_object(value: Any) -> bool:
    """Whether an object is all in its attributes: of a class in Python without a base in C but ``object``."""
    kind = type(value)
    for base in kind.__mro__[:-1]:
        if not base.__flags__ & _HEAP_TYPE or base.__flags__ & _IMMUTABLE_TYPE:
            return False
        path = getattr(sys.modules.get(base.__module__), "__file__", None)
        if base.__module__ in sys.builtin_module_names or (path is not None and not path.endswith(".py")):
            return False
    # A class in C that looks like one in Python has more in its instances than their slots.
    slots = sum(len(_slots_of(base)) for base in kind.__mro__)
    return kind.__itemsize__ == 0 and kind.__basicsize__ <= _Plain.__basicsize__ + _POINTER_BYTES * slots
