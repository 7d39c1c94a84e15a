"""Arrays of awkward, NumPy, Arrow and pandas, made of awkward's layouts without a copy where that is possible.

Entries of NumPy object arrays are Python lists, sets and dicts that also answer the calls of uproot's containers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import awkward as ak
import numpy as np

from branchline.errors import NotHereError, OptionError
from branchline.reading.arrays.layouts import array_of_record

# Libraries by their names, under which uproot accepts several spellings.
LIBRARIES = {
    **dict.fromkeys(("ak", "awkward", "Awkward", "awkward1", "Awkward1"), "ak"),
    **dict.fromkeys(("np", "numpy", "NumPy", "Numpy", "NUMPY"), "np"),
    **dict.fromkeys(("pd", "pandas", "Pandas", "PANDAS"), "pd"),
    **dict.fromkeys(("arrow", "pyarrow", "pa"), "arrow"),
}
# Packages of optional libraries, and the extras that install them.
EXTRAS = {"pd": ("pandas", "pandas"), "arrow": ("pyarrow", "parquet")}
# Branches that belong together as records of the same name.
NESTED = "nested"
# C++ containers that are sets or maps, and the tokens of a C++ type.
_SETS = frozenset({"set", "multiset", "unordered_set", "unordered_multiset"})
_MAPS = frozenset({"map", "unordered_map"})
_WORDS = re.compile(r"[<>,]|[^<>,]+")

# Converts an entry from plain Python lists, tuples and dicts.
Make = Callable[[Any], Any]


def library_of(library: object) -> str:
    """``ak``, ``np``, ``arrow`` or ``pd`` for the name of a library. Raises OptionError for another one, NotHereError
    where it is not installed.
    """
    if not isinstance(library, str) or library not in LIBRARIES:
        raise OptionError(f"there is no library {library!r}", hint='use "ak", "np", "arrow" or "pd"')
    short = LIBRARIES[library]
    package, extra = EXTRAS.get(short, ("", ""))
    if package and find_spec(package) is None:
        what = f"library={library!r} needs the package {package}, which is not installed"
        raise NotHereError(what, hint=f"pip install 'branchline[{extra}]'")
    return short


def array_of(layout: ak.contents.Content, library: str, entries: Any = None, typename: str = "") -> Any:
    """One column as an array of this library; with pandas a Series, or for records a frame, indexed by the entries.

    ``typename`` is its C++ type, where it is that of a branch: in NumPy's objects maps are dicts then.
    """
    if library == "np":
        return numpy_of(layout, typename)
    if library == "arrow":
        return ak.to_arrow(ak.Array(layout), extensionarray=False)
    if library == "pd":
        return _pandas_of(layout, entries)
    return ak.Array(layout)


def numpy_of(layout: ak.contents.Content, typename: str = "") -> np.ndarray[Any, Any]:
    """A NumPy array: of numbers where that can be, structured for a leaf list and for objects of numbers, else of one
    object per entry: an array, a text, or what ``maker_of`` makes for the C++ type.
    """
    if _is_block(layout):
        return np.asarray(_block(layout))
    if layout.is_record and layout.fields and not layout.is_tuple and all(map(_is_block, layout.contents)):
        return _structured(layout)
    entries = _entries(layout, typename)
    array = np.empty(len(entries), dtype=object)
    for index, entry in enumerate(entries):
        array[index] = entry
    return array


def _is_text(layout: ak.contents.Content) -> bool:
    return layout.parameter("__array__") in ("string", "bytestring")


def _is_block(layout: ak.contents.Content) -> bool:
    """Whether it is numbers, or fixed arrays of them."""
    while layout.is_regular and not _is_text(layout):
        layout = layout.content
    return bool(layout.is_numpy)


def _block(layout: ak.contents.Content) -> Any:
    return layout.data if layout.is_numpy else ak.to_numpy(ak.Array(layout))


def _structured(layout: ak.contents.RecordArray) -> np.ndarray[Any, Any]:
    members = {name: np.asarray(_block(layout.content(name))) for name in layout.fields}
    dtype: Any = [(name, member.dtype, member.shape[1:]) for name, member in members.items()]
    # Objects of a class answer uproot's calls; a leaf list is plain.
    array = np.empty(len(layout), np.dtype((MemberRow, dtype)) if layout.parameter("__record__") else dtype)
    for name, member in members.items():
        array[name] = member
    return array


def _entries(layout: ak.contents.Content, typename: str) -> list[Any]:
    """One object for each entry: an array of numbers if it is a list of them."""
    is_plain = layout.is_list and not layout.is_regular and not _is_text(layout) and _is_block(layout.content)
    if is_plain and not typename.startswith("std::set<"):
        whole = layout.to_ListOffsetArray64(True)
        values = np.asarray(_block(whole.content))[: whole.offsets[-1]]
        return np.split(values, np.asarray(whole.offsets)[1:-1]) if len(whole) else []
    if _is_text(layout):
        return list(ak.to_list(layout))
    return list(map(maker_of(typename), ak.to_list(layout)))


def _pandas_of(layout: ak.contents.Content, entries: Any) -> Any:
    """A Series, or a frame of the members of a record."""
    import pandas

    if layout.is_record and layout.fields:
        return pandas.DataFrame(_series_of("", layout, entries))
    return next(iter(_series_of("", layout, entries).values()))


def _series_of(name: str, layout: ak.contents.Content, entries: Any) -> dict[str, Any]:
    """The columns of a frame: one, or one for each member of a record."""
    import pandas

    if layout.is_record and layout.fields:
        columns: dict[str, Any] = {}
        for member in layout.fields:
            columns |= _series_of(f"{name}.{member}" if name else member, layout.content(member), entries)
        return columns
    index = _index_of(len(layout), entries)
    if layout.is_numpy and layout.purelist_depth == 1:
        return {name: pandas.Series(np.asarray(layout.data), index=index, name=name or None)}
    values = ak.to_list(layout) if _is_text(layout) else list(ak.Array(layout))
    return {name: pandas.Series(values, index=index, name=name or None, dtype=None if values else object)}


def _index_of(count: int, entries: Any) -> Any:
    import pandas

    if entries is None:
        return pandas.RangeIndex(count)
    return pandas.RangeIndex(entries.start, entries.stop) if isinstance(entries, range) else pandas.Index(entries)


def check_how(library: str, how: Any) -> None:
    """Raises OptionError for a way to put arrays together that a library has not."""
    if how in (None, dict, list, tuple) or how in {"ak": ("zip", NESTED), "arrow": (NESTED,)}.get(library, ()):
        return
    if library != "pd" or not isinstance(how, str) or how == NESTED:
        hint = 'use None, dict, list or tuple; for awkward also "zip" and "nested"'
        raise OptionError(f"for library {library!r} there is no how={how!r}", hint=hint)


def group_of(
    record: ak.contents.RecordArray,
    library: str,
    how: Any = None,
    entries: Any = None,
    typenames: Mapping[str, str] | None = None,
) -> Any:
    """Several columns together; ``typenames`` are C++ types of some of them.

    By default an awkward record array, a dict of NumPy arrays, an Arrow table, or a pandas frame indexed by the
    entries; with ``how`` dict, list or tuple a container of arrays; with "zip" an awkward record array in which lists
    of the same lengths are one list of records ("nested" is for those who know the branches). Raises OptionError.
    """
    check_how(library, how)
    if how in (dict, list, tuple) or (library == "np" and how is None):
        known = typenames or {}
        arrays = {name: array_of(record.content(name), library, entries, known.get(name, "")) for name in record.fields}
        return arrays if how in (dict, None) else how(arrays.values())
    if library == "pd":
        return _frame(record, entries)
    if library == "arrow":
        return ak.to_arrow_table(ak.Array(record), extensionarray=False)
    return zipped(record) if how == "zip" else array_of_record(record)


def _frame(record: ak.contents.RecordArray, entries: Any) -> Any:
    import pandas

    index = _index_of(len(record), entries)
    columns: dict[str, Any] = {}
    for name in record.fields:
        columns |= _series_of(name, record.content(name), None)
    for one in columns.values():
        one.index = pandas.RangeIndex(len(one)) if len(one) != len(index) else index
    return pandas.DataFrame(columns, index=index)


def zipped(record: ak.contents.RecordArray) -> ak.Array:
    """The same, with lists of the same lengths as one list of records.

    Such a list is called what its names have in common up to ``_``, ``.`` or ``/``, or ``jagged0``, ``jagged1``, ...
    """
    flat: dict[str, Any] = {}
    lists: list[tuple[Any, dict[str, Any]]] = []
    for name in record.fields:
        content = record.content(name)
        if not _is_plain_list(content):
            flat[name] = content
            continue
        content = content.to_ListOffsetArray64(True)
        same = next((members for offsets, members in lists if np.array_equal(offsets, content.offsets)), None)
        if same is None:
            lists.append((content.offsets, same := {}))
        same[name] = content
    for number, (_, members) in enumerate(lists):
        prefix = common_prefix(list(members))
        common = prefix.strip("_./")
        if not common or common in flat:
            prefix, common = "", f"jagged{number}"
        short = {name[len(prefix) :].strip("_./"): ak.Array(content) for name, content in members.items()}
        flat[common] = ak.zip(short, depth_limit=2, highlevel=False)
    return ak.Array(ak.contents.RecordArray(list(flat.values()), list(flat), length=len(record)))


def _is_plain_list(layout: ak.contents.Content) -> bool:
    """Whether it has any number of numbers, fixed arrays or records in each entry, and no lists in lists."""
    if not layout.is_list or layout.is_regular or _is_text(layout):
        return False
    return not (layout.content.is_list and not layout.content.is_regular) and not _is_text(layout.content)


def common_prefix(names: Sequence[str]) -> str:
    """What all the names begin with, up to the last ``_``, ``.`` or ``/`` in it."""
    shortest = min(names, key=len)
    length = next((i for i, letter in enumerate(shortest) if any(one[i] != letter for one in names)), len(shortest))
    while length and shortest[length - 1] not in "_./":
        length -= 1
    return shortest[:length]


class Elements(list[Any]):
    """The elements of a vector or of another list."""

    def tolist(self) -> list[Any]:
        """The same in lists, sets and dicts without names of uproot."""
        return [_plain(one) for one in self]


class SetOfElements(set[Any]):
    """The elements of a set."""

    def tolist(self) -> set[Any]:
        """The same in lists, sets and dicts without names of uproot."""
        return {_plain(one) for one in self}


class Mapped(dict[Any, Any]):
    """A map: values by their keys."""

    def tolist(self) -> dict[Any, Any]:
        """The same in lists, sets and dicts without names of uproot."""
        return {_plain(key): _plain(value) for key, value in self.items()}


class Members(dict[Any, Any]):
    """An object: the values of its members by their names, also as ``object.name``."""

    @property
    def members(self) -> Mapping[str, Any]:
        """Its members, under uproot's name."""
        return dict(self)

    all_members = members

    def member(self, name: str) -> Any:
        """A member, under uproot's name. Raises KeyError."""
        return self[name]

    def has_member(self, name: str) -> bool:
        """Whether it has a member, under uproot's name."""
        return name in self

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(f"this object has no member {name!r}; it has {', '.join(self)}")

    def tolist(self) -> dict[Any, Any]:
        """The same in lists, sets and dicts without names of uproot."""
        return {name: _plain(value) for name, value in self.items()}


class MemberRow(np.record):  # type: ignore[misc] # NumPy lets others inherit from it, its stub does not
    """An element of a structured array: its members by index, and under uproot's names."""

    def member(self, name: str) -> Any:
        """A member, under uproot's name. Raises ValueError."""
        return self[name]

    def has_member(self, name: str) -> bool:
        """Whether it has a member, under uproot's name."""
        return name in (self.dtype.names or ())


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


def maker_of(typename: str) -> Make:
    """What makes an entry of a branch of this C++ type out of lists, tuples and dicts of Python."""
    words = [word.strip() for word in _WORDS.findall(typename.replace("std::", ""))]
    return _maker(_parsed([word for word in words if word]))


# A type: its name and its arguments.
_Type = tuple[str, list[Any]]


def _parsed(words: list[str]) -> _Type:
    """The first type of these words, which are taken from them."""
    name = words.pop(0) if words else ""
    arguments: list[_Type] = []
    while words and words[0] in "<,":
        if words[0] == "," and not arguments:
            break
        words.pop(0)
        arguments.append(_parsed(words))
    if arguments and words and words[0] == ">":
        words.pop(0)
    return name, arguments


def _maker(kind: _Type) -> Make:
    name, arguments = kind
    if name in _SETS and arguments:
        return _sets(_maker(arguments[0]))
    if name in _MAPS and len(arguments) > 1:
        return _maps(_maker(arguments[0]), _maker(arguments[1]))
    if arguments:
        return _lists(_maker(arguments[0]))
    return named


def named(value: Any) -> Any:
    """A value of any type, with the names of uproot."""
    if isinstance(value, dict):
        return Members({name: named(member) for name, member in value.items()})
    if isinstance(value, list):
        return Elements(map(named, value))
    return tuple(map(named, value)) if isinstance(value, tuple) else value


def _lists(make: Make) -> Make:
    return lambda value: Elements(map(make, value)) if isinstance(value, list) else named(value)


def _sets(make: Make) -> Make:
    def made(value: Any) -> Any:
        elements = Elements(map(make, value)) if isinstance(value, list) else named(value)
        try:
            unique = SetOfElements(elements)
        except TypeError:  # elements that Python's sets cannot hold
            return elements
        # A multiset may hold an element twice.
        return unique if len(unique) == len(elements) else elements

    return made


def _maps(key: Make, value: Make) -> Make:
    def made(pairs: Any) -> Any:
        if not isinstance(pairs, list) or any(len(pair) != 2 for pair in pairs):
            return named(pairs)
        two = [tuple(pair.values()) if isinstance(pair, dict) else tuple(pair) for pair in pairs]
        try:
            return Mapped({key(one): value(other) for one, other in two})
        except TypeError:  # keys that Python's dicts cannot hold
            return Elements((key(one), value(other)) for one, other in two)

    return made
