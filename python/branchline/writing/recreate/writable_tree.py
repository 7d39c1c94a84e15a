"""WritableTree: a TTree or an RNTuple that is being filled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import awkward as ak

from branchline import _core
from branchline.base.limits import parse_bytes
from branchline.errors import BranchlineWarning, OptionError, UnsupportedBranchError, warn
from branchline.reading.arrays.missing import misses, whole
from branchline.writing.columns.columns import column_of, missing_error
from branchline.writing.columns.fields import NOT_IN_NAMES, ShownField
from branchline.writing.columns.targets import CLUSTER_BYTES, PAGE_BYTES, Layout
from branchline.writing.recreate.codecs import codec_of
from branchline.writing.recreate.counters import check_counters
from branchline.writing.recreate.values import BranchValues, Naming, branches_of, fitting, is_like, named_columns


@dataclass(frozen=True)
class NewTable:
    """A tree to be made: its branches with columns of which only the types count, and how it is laid out. ``counters``
    are the branches that count the elements of arrays; ``shown`` is None for a TTree.
    """

    name: str
    title: str
    layout: Layout
    names: list[str]
    columns: list[_core.Column]
    counters: list[str | None]
    shown: list[ShownField] | None


@dataclass(slots=True)
class WritableTree:
    """A TTree or an RNTuple of a file that is being written. ``extend`` adds entries; what is full is compressed on all
    cores and written, so that memory stays bounded. Raises OptionError for other columns than before. Its codec is that
    of the file, or the one that ``mktree`` was given.

        >>> with branchline.recreate("out.root") as file:
        ...     tree = file.mktree("events", {"n": "int32", "pt": "var * float32"})
        ...     tree.extend({"n": [1, 2], "pt": [[1.5], [2.5, 3.5]]})
    """

    path: str
    file_path: str
    classname: str
    title: str
    _core_file: _core.WritableFile
    _number: int
    _columns: Mapping[str, ak.contents.Content]
    _naming: Naming
    _names: list[str]
    _counters: frozenset[str]
    _table: NewTable
    _file: object
    """The file, which stays open as long as its tree is used."""
    num_entries: int = field(default=0)

    @property
    def name(self) -> str:
        """Its name."""
        return self.path.rpartition("/")[2]

    def keys(self) -> list[str]:
        """The names of its branches or fields, counters among them.

        >>> with branchline.recreate("out.root") as file:
        ...     file.mktree("events", {"pt": "var * float32"}).keys()
        ['pt', 'npt']
        """
        return list(self._names)

    def __len__(self) -> int:
        return self.num_entries

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<WritableTree {self.path!r} of {len(self._names)} branches, {self.num_entries} entries>"

    @property
    def compression(self) -> str:
        """The codec of all branches. It can be set until the first entry is added."""
        return self._table.layout.codec

    @compression.setter
    def compression(self, compression: Any) -> None:
        given = list(compression.values()) if isinstance(compression, Mapping) else [compression]
        codecs = {codec_of(one) for one in given}
        if len(codecs) != 1:
            what = f"tree {self.path}: its branches have one codec, and are given {', '.join(sorted(codecs))}"
            raise OptionError(what, path=self.file_path, hint="set one compression for the tree, or make two trees")
        if self.num_entries:
            what = f"tree {self.path} has {self.num_entries} entries with the codec {self.compression}"
            raise OptionError(what, path=self.file_path, hint="set the compression before the first entry")
        table = replace(self._table, layout=replace(self._table.layout, codec=codecs.pop()))
        cycle = max(key.cycle for key in self._core_file.keys() if key.path == self.path)
        self._core_file.remove(self.path, cycle)
        self._number = self._core_file.add_table(self.path.split("/")[:-1], table)
        self._table = table

    def extend(self, values: Any) -> None:
        """Adds entries: a mapping of the same columns as before, an awkward array of records, a DataFrame. Counters of
        lists may be among them.

        Raises OptionError, which is a ValueError, for missing or other columns, for columns of different lengths, and
        for values that the branch cannot hold; the tree goes on without these entries. Raises StorageError where the
        file cannot be written.

            >>> with branchline.recreate("out.root") as file:
            ...     tree = file.mktree("events", {"x": "float32"})
            ...     for step in range(3):
            ...         tree.extend({"x": [step, step + 0.5]})
            ...     tree.num_entries
            6
        """
        self._extend(named_columns(values))
        self._core_file.publish()

    def _extend(self, given: dict[str, ak.contents.Content]) -> None:
        """Adds entries that are columns already."""
        missing = [name for name in self._columns if name not in given]
        other = [name for name in given if name not in self._columns and name not in self._counters]
        if missing or other:
            what = [f"there is no {name}" for name in missing] + [f"{name} is not of the tree" for name in other]
            hint = f"the columns are {', '.join(self._columns)}"
            raise OptionError(f"tree {self.path}: {'; '.join(what)}", path=self.file_path, hint=hint)
        count = length_of(given, self.path, self.file_path)
        if not count:
            return
        if self.classname == "TTree":
            given = {name: whole(layout) for name, layout in given.items()}
            lost = next((name for name, layout in given.items() if misses(layout)), None)
            if lost is not None:
                error = missing_error(lost, "write an RNTuple, with mkrntuple, or fill them with ak.fill_none")
                raise OptionError(f"tree {self.path}: {error.what}", path=self.file_path, hint=error.hint)
        columns = {name: fitting(given[name], sample, name) for name, sample in self._columns.items()}
        for name, sample in self._columns.items():
            # Found here, before anything is added: the tree goes on without these entries.
            if not is_like(columns[name], sample):
                have, wanted = (one.form.type for one in (given[name], sample))
                refused = f"tree {self.path}: branch {name} holds {wanted}, and is given {have}"
                raise OptionError(refused, path=self.file_path, hint="convert the values; no entry was added")
        filled = list(branches(columns, self._naming, is_ntuple=self.classname != "TTree"))
        counts = {name: given[name] for name in self._counters if name in given}
        check_counters(filled, counts, self.path, self.file_path)
        self._core_file.fill(self._number, [column_of(one.layout, one.name) for one in filled], count)
        self.num_entries += count


def branches(columns: Mapping[str, ak.contents.Content], naming: Naming, *, is_ntuple: bool) -> Iterator[BranchValues]:
    """The branches or fields of these columns."""
    for name, layout in columns.items():
        if is_ntuple:
            yield BranchValues(name, layout)
        else:
            yield from branches_of(name, layout, naming)


def length_of(columns: Mapping[str, ak.contents.Content], path: str, file_path: str) -> int:
    """The number of entries of columns. Raises OptionError where they differ."""
    lengths = {name: len(layout) for name, layout in columns.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} has {count}" for name, count in lengths.items())
        raise OptionError(
            f"tree {path}: its columns have different lengths: {shown}",
            path=file_path,
            hint="each column has a value or a list for each entry",
        )
    return next(iter(lengths.values()), 0)


def _field_names(columns: Mapping[str, ak.contents.Content]) -> Iterator[str]:
    """The names of fields, with those of records in them."""
    for name, layout in columns.items():
        yield name
        contents = [layout]
        while contents:
            one = contents.pop()
            if one.is_record and not one.is_tuple:
                yield from _field_names(dict(zip(one.fields, one.contents, strict=True)))
            elif one.is_union:
                contents += one.contents
            elif one.is_list or one.is_indexed or one.is_option:
                contents.append(one.content)


def new_table(
    name: str, title: str, columns: Mapping[str, ak.contents.Content], naming: Naming, codec: str, *, is_ntuple: bool
) -> NewTable:
    """The tree for columns like these. Raises OptionError for names that are there twice, or types that are unknown."""
    made = list(branches({one: layout[:0] for one, layout in columns.items()}, naming, is_ntuple=is_ntuple))
    names = [one.name for one in made]
    unparsable = next((one for one in names if "[" in one or "]" in one), None)
    if unparsable is not None and not is_ntuple:
        what = (
            f"tree {name!r}: ROOT takes the brackets of {unparsable!r} for dimensions and cannot use the branch by name"
        )
        warn(f"{what}; rename it", BranchlineWarning)
    forbidden = next((one for one in _field_names(columns) if NOT_IN_NAMES.search(one)), None) if is_ntuple else None
    if forbidden is not None:
        what = f"RNTuple {name!r}: field {forbidden!r}: ROOT allows no dots, slashes, spaces or backslashes in its name"
        raise OptionError(what, hint="rename it, or make the tree with mktree")
    all_names = names + sorted({one.counter for one in made if one.counter is not None})
    twice = next((one for one in all_names if all_names.count(one) > 1), None)
    if twice is not None:
        raise OptionError(f"tree {name}: there would be two branches {twice}", hint="rename one of them")
    empty = next((one.name for one in made if _is_of_nothing(one.layout)), None)
    if empty is not None:
        raise UnsupportedBranchError(f"tree {name}: {empty}: arrays of 0 elements hold nothing", hint="leave it out")
    unknown = next((one.name for one in made if _has_unknown(one.layout)), None)
    if unknown is not None:
        hint = "give it one with ak.values_astype, or make the tree with mktree"
        raise UnsupportedBranchError(
            f"tree {name}: the type of {unknown} is not known, for it has no values", hint=hint
        )
    layout = Layout(codec, None, parse_bytes(CLUSTER_BYTES), parse_bytes(PAGE_BYTES))
    columns_made = [column_of(one.layout, one.name) for one in made]
    counters = [one.counter for one in made]
    return NewTable(name, title, layout, names, columns_made, counters, [] if is_ntuple else None)


def _is_of_nothing(layout: ak.contents.Content) -> bool:
    """Whether values are, or hold, arrays of the fixed length 0."""
    if layout.is_record or layout.is_union:
        return any(_is_of_nothing(one) for one in layout.contents)
    if layout.is_numpy or layout.is_unknown:
        return False
    return bool(layout.is_regular and layout.size == 0) or _is_of_nothing(layout.content)


def _has_unknown(layout: ak.contents.Content) -> bool:
    if layout.is_unknown:
        return True
    if layout.is_record or layout.is_union:
        return any(_has_unknown(one) for one in layout.contents)
    return not layout.is_numpy and _has_unknown(layout.content)
