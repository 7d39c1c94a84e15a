"""Converts awkward layouts to arrays of awkward, NumPy, Arrow and pandas, without a copy where possible.

Entries of NumPy object arrays are Python lists, sets and dicts that also have the methods of uproot's containers.
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

# Accepted library names, including all spellings that uproot accepts.
LIBRARIES = {
    **dict.fromkeys(("ak", "awkward", "Awkward", "awkward1", "Awkward1"), "ak"),
    **dict.fromkeys(("np", "numpy", "NumPy", "Numpy", "NUMPY"), "np"),
    **dict.fromkeys(("pd", "pandas", "Pandas", "PANDAS"), "pd"),
    **dict.fromkeys(("arrow", "pyarrow", "pa"), "arrow"),
}
# For each optional library, the required package and the extra of Branchline that installs the package.
EXTRAS = {"pd": ("pandas", "pandas"), "arrow": ("pyarrow", "parquet")}
# Value of the option ``how`` that combines related branches into records.
NESTED = "nested"
# C++ containers that become Python sets.
_SETS = frozenset({"set", "multiset", "unordered_set", "unordered_multiset"})
# C++ containers that become Python dicts.
_MAPS = frozenset({"map", "unordered_map"})
# Matches a token of a C++ type.
_WORDS = re.compile(r"[<>,]|[^<>,]+")

# Function that converts an entry, given as plain Python lists, tuples and dicts.
Make = Callable[[Any], Any]


def library_of(library: object) -> str:
    """Normalize a library name to ``ak``, ``np``, ``arrow`` or ``pd``.

    Raises OptionError for an unknown name, and NotHereError if the library is not installed.
    """
    if not isinstance(library, str) or library not in LIBRARIES:
        raise OptionError(f"unknown library {library!r}", hint='use "ak", "np", "arrow" or "pd"')
    short = LIBRARIES[library]
    package, extra = EXTRAS.get(short, ("", ""))
    if package and find_spec(package) is None:
        what = f"library={library!r} needs the package {package}, which is not installed"
        raise NotHereError(what, hint=f"pip install 'branchline[{extra}]'")
    return short


def array_of(layout: ak.contents.Content, library: str, entries: object = None, typename: str = "") -> Any:
    """Convert a column to an array of ``library``; with pandas, the index is ``entries``.

    pandas returns a Series, or a DataFrame for records.

    ``typename`` is the C++ type if the column is a branch. The conversion to NumPy uses it to convert maps to dicts.
    """
    if library == "np":
        return numpy_of(layout, typename)
    if library == "arrow":
        return ak.to_arrow(ak.Array(layout), extensionarray=False)
    if library == "pd":
        import pandas

        if layout.is_record and layout.fields:
            return pandas.DataFrame(_series_of("", layout, entries))
        return next(iter(_series_of("", layout, entries).values()))
    return ak.Array(layout)


def numpy_of(layout: ak.contents.Content, typename: str = "") -> np.ndarray:
    """Convert to a NumPy array.

    The result is a numeric array if possible, and a structured array for leaf lists and for objects that only contain
    numbers. Otherwise, it is an object array of arrays, strings, or objects created by ``maker_of`` for the C++ type.
    """
    if _is_block(layout):
        return np.asarray(_block(layout))
    if layout.is_record and layout.fields and not layout.is_tuple and all(map(_is_block, layout.contents)):
        members = {name: np.asarray(_block(layout.content(name))) for name in layout.fields}
        dtype = [(name, member.dtype, member.shape[1:]) for name, member in members.items()]
        # Elements with a C++ class get uproot's methods, elements of a leaf list do not.
        structured = np.empty(len(layout), np.dtype((MemberRow, dtype)) if layout.parameter("__record__") else dtype)
        for name, member in members.items():
            structured[name] = member
        return structured
    entries = _entries(layout, typename)
    array = np.empty(len(entries), dtype=object)
    for index, entry in enumerate(entries):
        array[index] = entry
    return array


def _is_text(layout: ak.contents.Content) -> bool:
    return layout.parameter("__array__") in ("string", "bytestring")


def _is_block(layout: ak.contents.Content) -> bool:
    """Whether the values are numbers, or fixed-size arrays of numbers."""
    while layout.is_regular and not _is_text(layout):
        layout = layout.content
    return bool(layout.is_numpy)


def _block(layout: ak.contents.Content) -> Any:
    return layout.data if layout.is_numpy else ak.to_numpy(ak.Array(layout))


def _entries(layout: ak.contents.Content, typename: str) -> list[Any]:
    """Return one Python object per entry; lists of numbers become NumPy arrays."""
    is_plain = layout.is_list and not layout.is_regular and not _is_text(layout) and _is_block(layout.content)
    if is_plain and not typename.startswith("std::set<"):
        whole = layout.to_ListOffsetArray64(True)
        values = np.asarray(_block(whole.content))[: whole.offsets[-1]]
        return np.split(values, np.asarray(whole.offsets)[1:-1]) if len(whole) else []
    if _is_text(layout):
        return list(ak.to_list(layout))
    return list(map(maker_of(typename), ak.to_list(layout)))


def _series_of(name: str, layout: ak.contents.Content, entries: object) -> dict[str, Any]:
    """Return the DataFrame columns for a field: one column, or one per member of a record."""
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


def check_how(library: str, how: object) -> None:
    """Raise OptionError if the library does not support the value of ``how``."""
    if how in (None, dict, list, tuple) or how in {"ak": ("zip", NESTED), "arrow": (NESTED,)}.get(library, ()):
        return
    if library != "pd" or not isinstance(how, str) or how == NESTED:
        hint = 'use None, dict, list or tuple; for awkward also "zip" and "nested"'
        raise OptionError(f"library {library!r} does not support how={how!r}", hint=hint)


def group_of(
    record: ak.contents.RecordArray,
    library: str,
    how: object = None,
    entries: object = None,
    typenames: Mapping[str, str] | None = None,
) -> Any:
    """Combine several columns. ``typenames`` are the C++ types of the columns that are branches.

    By default, the result is an awkward record array, a dict of NumPy arrays, an Arrow table, or a pandas DataFrame
    indexed by ``entries``. ``how`` selects a dict, list or tuple of arrays, or "zip": an awkward record array in which
    lists of equal lengths are combined into one list of records. Callers handle "nested", because only they know the
    branches. Raises OptionError.
    """
    check_how(library, how)
    if how in (dict, list, tuple) or (library == "np" and how is None):
        known = typenames or {}
        arrays = {name: array_of(record.content(name), library, entries, known.get(name, "")) for name in record.fields}
        return arrays if how in (dict, None) else how(arrays.values())
    if library == "pd":
        import pandas

        index = _index_of(len(record), entries)
        columns: dict[str, Any] = {}
        for field in record.fields:
            columns |= _series_of(field, record.content(field), None)
        for one in columns.values():
            one.index = pandas.RangeIndex(len(one)) if len(one) != len(index) else index
        return pandas.DataFrame(columns, index=index)
    if library == "arrow":
        return ak.to_arrow_table(ak.Array(record), extensionarray=False)
    return zipped(record) if how == "zip" else array_of_record(record)


def zipped(record: ak.contents.RecordArray) -> ak.Array:
    """Combine lists of equal lengths into one list of records.

    The list's name is the common prefix of the fields up to ``_``, ``.`` or ``/``. Without a common prefix, the names
    are ``jagged0``, ``jagged1``, ...
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
    """Whether entries are variable-length lists whose elements are not variable-length lists."""
    if not layout.is_list or layout.is_regular or _is_text(layout):
        return False
    return not (layout.content.is_list and not layout.content.is_regular) and not _is_text(layout.content)


def common_prefix(names: Sequence[str]) -> str:
    """Return the common prefix of all names, cut after the last ``_``, ``.`` or ``/``."""
    shortest = min(names, key=len)
    length = next((i for i, letter in enumerate(shortest) if any(one[i] != letter for one in names)), len(shortest))
    while length and shortest[length - 1] not in "_./":
        length -= 1
    return shortest[:length]


class Elements(list[object]):
    """The elements of a vector or another sequence, as a list."""

    def tolist(self) -> list[Any]:
        """Convert to plain Python lists, sets and dicts."""
        return [_plain(one) for one in self]


class SetOfElements(set[object]):
    """The elements of a set."""

    def tolist(self) -> set[object]:
        """Convert to plain Python lists, sets and dicts."""
        return {_plain(one) for one in self}


class Mapped(dict[object, object]):
    """The items of a map."""

    def tolist(self) -> dict[Any, Any]:
        """Convert to plain Python lists, sets and dicts."""
        return {_plain(key): _plain(value) for key, value in self.items()}


class Members(dict[Any, Any]):
    """An object as a mapping from member names to values. The members are also accessible as attributes."""

    @property
    def members(self) -> Mapping[str, Any]:
        """The members, for compatibility with uproot."""
        return dict(self)

    all_members = members

    def member(self, name: str) -> Any:
        """Return a member by name, for compatibility with uproot. Raises KeyError."""
        return self[name]

    def has_member(self, name: str) -> bool:
        """Whether this member exists, for compatibility with uproot."""
        return name in self

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(f"this object has no member {name!r}; its members are {', '.join(self)}")

    def tolist(self) -> dict[Any, Any]:
        """Convert to plain Python lists, sets and dicts."""
        return {name: _plain(value) for name, value in self.items()}


class MemberRow(np.record):  # type: ignore[misc] # can be subclassed, but NumPy's stub marks it final
    """An element of a structured array, whose members are also accessible through uproot's methods."""

    def member(self, name: str) -> Any:
        """Return a member by name, for compatibility with uproot. Raises ValueError."""
        return self[name]

    def has_member(self, name: str) -> bool:
        """Whether this member exists, for compatibility with uproot."""
        return name in (self.dtype.names or ())


def _plain(value: object) -> object:
    return value.tolist() if hasattr(value, "tolist") else value


def maker_of(typename: str) -> Make:
    """Return a function that creates entries of a C++ type from plain Python lists, tuples and dicts."""
    words = [word.strip() for word in _WORDS.findall(typename.replace("std::", ""))]
    return _maker(_parsed([word for word in words if word]))


# A parsed C++ type: its name and its template arguments.
_Type = tuple[str, list[Any]]


def _parsed(words: list[str]) -> _Type:
    """Parse the next C++ type and remove its tokens from ``words``."""
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
        make = _maker(arguments[0])
        return lambda value: Elements(map(make, value)) if isinstance(value, list) else named(value)
    return named


def named(value: object) -> Any:
    """Convert a value of any type to objects with uproot's methods."""
    if isinstance(value, dict):
        return Members({name: named(member) for name, member in value.items()})
    if isinstance(value, list):
        return Elements(map(named, value))
    return tuple(map(named, value)) if isinstance(value, tuple) else value


def _sets(make: Make) -> Make:
    def made(value: object) -> Any:
        elements = Elements(map(make, value)) if isinstance(value, list) else named(value)
        try:
            unique = SetOfElements(elements)
        except TypeError:  # unhashable elements
            return elements
        # A multiset may contain duplicates.
        return unique if len(unique) == len(elements) else elements

    return made


def _maps(key: Make, value: Make) -> Make:
    def made(pairs: object) -> Any:
        if not isinstance(pairs, list) or any(len(pair) != 2 for pair in pairs):
            return named(pairs)
        two = [tuple(pair.values()) if isinstance(pair, dict) else tuple(pair) for pair in pairs]
        try:
            return Mapped({key(one): value(other) for one, other in two})
        except TypeError:  # unhashable keys
            return Elements((key(one), value(other)) for one, other in two)

    return made
