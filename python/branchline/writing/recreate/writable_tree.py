"""WritableTree: a TTree or an RNTuple that is being filled.

Columns can be added to a tree that has entries already. Compression is given in Branchline's words, as ROOT's numbers
or as uproot's objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import awkward as ak
import numpy as np

from branchline import _core
from branchline.base.limits import parse_bytes
from branchline.errors import BranchlineWarning, NoSuchKeyError, OptionError, UnsupportedBranchError, warn
from branchline.reading.arrays.layouts import misses, whole
from branchline.writing.columns.columns import column_of, lists_of, missing_error
from branchline.writing.columns.fields import NOT_IN_NAMES, ShownField
from branchline.writing.columns.output_file import CLUSTER_BYTES, PAGE_BYTES, Layout
from branchline.writing.recreate.values import (
    BranchValues,
    Naming,
    branches_of,
    check_counters,
    descriptions_of,
    fitting,
    is_frame,
    is_like,
    named_columns,
    types_or_data,
)

#: The default codec: compresses better than zlib, in less time, and ROOT has it since 6.14.
USUAL = "zstd:5"
_CALL = re.compile(r"(\w+)\((\d+)\)")


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

    def __getitem__(self, name: str) -> WritableBranch:
        """Return a branch, to set its compression. Raises NoSuchKeyError."""
        if name not in self._names:
            hint = f"there are {', '.join(self._names)}"
            raise NoSuchKeyError(f"tree {self.path} has no branch {name!r}", path=self.file_path, hint=hint)
        return WritableBranch(self, name)

    @property
    def compression(self) -> str:
        """The codec of all branches that have none of their own. It can be set until the first entry is added; a
        mapping sets those of branches of a TTree by their names.
        """
        return self._table.layout.codec

    @compression.setter
    def compression(self, compression: Any) -> None:
        codec, codecs = self.compression, {}
        given = compression if isinstance(compression, Mapping) else dict.fromkeys(self._names, compression)
        own = {self[name].name: codec_of(one) for name, one in given.items()}
        if len({*own.values()}) == 1 and len(own) == len(self._names):
            codec = next(iter(own.values()))
        elif self.classname != "TTree":
            what = f"RNTuple {self.path}: its fields have one codec"
            raise OptionError(what, path=self.file_path, hint="set one compression for all of them")
        else:
            codecs = self._table.codecs | own
        if self.num_entries:
            what = f"tree {self.path} has {self.num_entries} entries with the codec {self.compression}"
            raise OptionError(what, path=self.file_path, hint="set the compression before the first entry")
        table = replace(self._table, layout=replace(self._table.layout, codec=codec), codecs=codecs)
        cycle = max(key.cycle for key in self._core_file.keys() if key.path == self.path)
        self._core_file.remove(self.path, cycle)
        self._number = self._core_file.add_table(self.path.split("/")[:-1], table)
        self._table = table

    def extend(self, values: Any, *, accept_new_fields: bool = False) -> None:
        """Adds entries: a mapping of the same columns as before, an awkward array of records, a DataFrame. Counters of
        lists may be among them. With ``accept_new_fields`` further columns are added, which are 0 or empty in the
        entries before.

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
        given = named_columns(values)
        if is_frame(values) and "index" not in self._columns:
            given.pop("index", None)  # the tree was made without one
        given = self._flat(given)
        if accept_new_fields:
            self._add({name: zeros_of(layout, self.num_entries) for name, layout in self._new(given).items()})
        self._extend(given)
        self._core_file.publish()

    def add_branches(self, values: Any) -> None:
        """Add branches or fields with their values for all entries so far.

        Raises OptionError for names that are there already and for other numbers of values, and UnsupportedBranchError.

            >>> with branchline.recreate("out.root") as file:
            ...     tree = file.mktree("events", {"x": [1, 2]})
            ...     tree.add_branches({"y": [0.5, 1.5]})
            ...     tree.keys()
            ['x', 'y']
        """
        self._add(named_columns(values))
        self._core_file.publish()

    def add_fields(self, types: Any) -> None:
        """Add fields or branches of these types, which are 0 or empty in the entries so far. In an RNTuple a name such
        as ``"jet.pt"`` adds a member to the record ``jet``.

        Raises OptionError for names that are there already or lead to no record, and UnsupportedBranchError.

            >>> with branchline.recreate("out.root") as file:
            ...     ntuple = file.mkrntuple("events", {"x": [1, 2]})
            ...     ntuple.add_fields({"weight": "float32"})
            ...     ntuple.extend({"x": [3], "weight": [0.5]})
        """
        columns, _ = types_or_data(types)
        self._add({name: zeros_of(layout, self.num_entries) for name, layout in columns.items()})
        self._core_file.publish()

    def _new(self, given: Mapping[str, ak.contents.Content]) -> dict[str, ak.contents.Content]:
        known = {*self._columns, *self._counters}
        return {name: layout for name, layout in given.items() if name not in known}

    def _flat(self, given: dict[str, ak.contents.Content]) -> dict[str, ak.contents.Content]:
        """Records as the branches of a tree that was made from records and opened again."""
        if self.classname != "TTree":
            return given
        for name, layout in self._new(given).items():
            members = {one.name: one.layout for one in branches_of(name, layout, self._naming)}
            if members and all(member in self._columns for member in members):
                given = {one: value for one, value in given.items() if one != name} | members
        return given

    def _add(self, columns: Mapping[str, ak.contents.Content]) -> None:
        is_ntuple = self.classname != "TTree"
        added = AddedColumns(dict(self._columns), self.path, self.file_path)
        for name, layout in columns.items():
            if len(layout) != self.num_entries:
                what = f"tree {self.path} has {self.num_entries} entries, and {name} has {len(layout)} values"
                raise OptionError(what, path=self.file_path, hint="give a value for each entry")
            added.add(name, layout[:0], is_nested=is_ntuple)
        made = list(branches(columns, self._naming, is_ntuple=is_ntuple))
        counters = list(dict.fromkeys(one.counter for one in made if one.counter is not None))
        twice = next((one for one in [*(one.name for one in made), *counters] if one in self._names), None)
        if twice is not None:
            raise added.taken_error(twice)
        check_counters(made, {}, self.path, self.file_path)
        laid_out = [column_of(one.layout, one.name) for one in made]
        names, counted = [one.name for one in made], [one.counter for one in made]
        self._core_file.add_columns(self._number, names, laid_out, counted, [_descriptions(one) for one in made])
        self._columns = added.columns
        self._names = [*self._names, *(one.name for one in made if "." not in one.name or not is_ntuple), *counters]
        self._counters |= frozenset(counters)

    def _extend(self, given: dict[str, ak.contents.Content]) -> None:
        """Adds entries that are columns already."""
        missing = [name for name in self._columns if name not in given]
        other = list(self._new(given))
        if missing or other:
            kind = "tree" if self.classname == "TTree" else "RNTuple"
            what = [f"missing {name}" for name in missing] + [f"{name} is not in this {kind}" for name in other]
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
        if self.classname == "TTree":
            check_texts(columns, self.path, self.file_path)
        filled = list(branches(columns, self._naming, is_ntuple=self.classname != "TTree"))
        counts = {name: given[name] for name in self._counters if name in given}
        check_counters(filled, counts, self.path, self.file_path)
        self._core_file.fill(self._number, [column_of(one.layout, one.name) for one in filled], count)
        self.num_entries += count


@dataclass
class WritableBranch:
    """A branch of a tree that is being written."""

    tree: WritableTree
    name: str

    @property
    def compression(self) -> str:
        """The codec of its baskets. It can be set until the first entry is added."""
        return self.tree._table.codecs.get(self.name, self.tree.compression)

    @compression.setter
    def compression(self, compression: Any) -> None:
        self.tree.compression = {self.name: compression}


@dataclass(frozen=True)
class NewTable:
    """A tree to be made: its branches with columns of which only the types count, and how it is laid out. ``counters``
    are the branches that count the elements of arrays; ``descriptions`` those of fields by their paths, for each
    column; ``shown`` is None for a TTree.
    """

    name: str
    title: str
    layout: Layout
    names: list[str]
    columns: list[_core.Column]
    counters: list[str | None]
    descriptions: list[list[tuple[str, str]]]
    codecs: dict[str, str]
    shown: list[ShownField] | None


def new_table(
    name: str, title: str, columns: Mapping[str, ak.contents.Content], naming: Naming, codec: str, *, is_ntuple: bool
) -> NewTable:
    """The tree for columns like these. Raises OptionError for names that are there twice, or types that are unknown."""
    if is_ntuple and "" in columns:
        hint = "name it, as in {'jets': array}, or write a TTree, with mktree"
        raise OptionError(f"RNTuple {name}: a list of records is a column without a name", hint=hint)
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
        what = f"tree {name}: {twice} collides with another branch, there would be two branches {twice}"
        raise OptionError(what, hint="rename one of them")
    empty = next((one.name for one in made if _is_of_nothing(one.layout)), None)
    if empty is not None:
        raise UnsupportedBranchError(f"tree {name}: {empty}: arrays of 0 elements hold nothing", hint="leave it out")
    unknown = next((one.name for one in made if _has_unknown(one.layout)), None)
    if unknown is not None:
        hint = "give it one with ak.values_astype, or make the tree with mktree"
        raise UnsupportedBranchError(
            f"tree {name}: the type of {unknown} is not known, for it has no values", hint=hint
        )
    columns_made = [column_of(one.layout, one.name) for one in made]
    counters = [one.counter for one in made]
    descriptions = [_descriptions(one) for one in made]
    shown: list[ShownField] | None = [] if is_ntuple else None
    return NewTable(name, title, layout_with(codec), names, columns_made, counters, descriptions, {}, shown)


def layout_with(codec: str) -> Layout:
    """Return how trees are laid out that are compressed like this."""
    return Layout(codec, None, parse_bytes(CLUSTER_BYTES), parse_bytes(PAGE_BYTES))


def check_texts(columns: Mapping[str, ak.contents.Content], path: str, file_path: str) -> None:
    """Raises OptionError for texts with a zero character, at which ROOT ends the text of a leaf."""
    for name, layout in columns.items():
        if layout.parameter("__array__") == "string":
            texts = lists_of(layout)
            if not np.all(texts.content.data[: texts.offsets[-1]]):
                what = f"tree {path}: a text of branch {name} has a zero character, at which ROOT would end it"
                raise OptionError(what, path=file_path, hint="write an RNTuple, with mkrntuple, or remove it")


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


def _descriptions(values: BranchValues) -> list[tuple[str, str]]:
    return list(descriptions_of(values.layout, values.name))


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


def codec_of(compression: Any) -> str:
    """The codec of ``"zstd:5"``, ``"ZSTD(5)"``, ``505``, ``None`` for none, or of uproot's ``uproot.ZSTD(5)``.

    Raises OptionError for anything else.
    """
    if compression is None:
        return "none"
    code = getattr(compression, "code", compression)
    if isinstance(code, int) and not isinstance(code, bool):
        return str(code)
    if isinstance(code, str):
        return _CALL.sub(r"\1:\2", code.strip())
    raise OptionError(f"{compression!r} is no compression", hint='write it like "zstd:5", "lz4", 505 or None')


@dataclass
class AddedColumns:
    """The columns of a tree, to which others are added."""

    columns: dict[str, ak.contents.Content]
    path: str
    file_path: str

    def add(self, name: str, sample: ak.contents.Content, *, is_nested: bool) -> None:
        """Add a column, or if ``is_nested`` a member of a record by a name such as ``jet.pt``. Raises OptionError."""
        first, _, rest = name.partition(".") if is_nested else (name, "", "")
        if not rest:
            if name in self.columns:
                raise self.taken_error(name)
            self.columns[name] = sample
        elif first not in self.columns:
            raise self._error(f"{first} is not found, to which {name} would belong")
        else:
            self.columns[first] = self._with_member(self.columns[first], rest.split("."), name, sample)

    def _with_member(
        self, record: ak.contents.Content, parts: list[str], name: str, sample: ak.contents.Content
    ) -> ak.contents.Content:
        if not record.is_record or record.is_tuple:
            what = f"{name} cannot be added to what has the type {record.form.type} and is not a record"
            raise self._error(what)
        own, *rest = parts
        members = {field: record.content(field) for field in record.fields}
        if rest:
            if own not in members:
                raise self._error(f"{own} is not found, to which {name} would belong")
            members[own] = self._with_member(members[own], rest, name, sample)
        elif own in members:
            raise self.taken_error(name)
        else:
            members[own] = sample
        return ak.contents.RecordArray(list(members.values()), list(members), len(record), parameters=record.parameters)

    def taken_error(self, name: str) -> OptionError:
        """Return the error for a name that a branch has already."""
        return self._error(f"{name} already exists")

    def _error(self, what: str) -> OptionError:
        hint = f"the columns are {', '.join(self.columns)}"
        return OptionError(f"tree {self.path}: {what}", path=self.file_path, hint=hint)


def zeros_of(layout: ak.contents.Content, count: int) -> ak.contents.Content:
    """Return ``count`` values of a type that are 0, empty or missing. Raises UnsupportedBranchError for unions."""
    if layout.is_indexed and not layout.is_option:
        return zeros_of(layout.project(), count)
    if layout.is_option:
        missing = ak.index.Index64(np.full(count, -1, dtype="i8"))
        return ak.contents.IndexedOptionArray(missing, layout.content[:0], parameters=layout.parameters)
    if layout.is_numpy:
        zeros = np.zeros((count, *layout.data.shape[1:]), layout.data.dtype)
        return ak.contents.NumpyArray(zeros, parameters=layout.parameters)
    if layout.is_regular:
        content = zeros_of(layout.content, count * layout.size)
        return ak.contents.RegularArray(content, layout.size, count, parameters=layout.parameters)
    if layout.is_list:
        offsets = ak.index.Index64(np.zeros(count + 1, dtype="i8"))
        return ak.contents.ListOffsetArray(offsets, layout.content[:0], parameters=layout.parameters)
    if layout.is_record:
        contents = [zeros_of(content, count) for content in layout.contents]
        fields = None if layout.is_tuple else layout.fields
        return ak.contents.RecordArray(contents, fields, count, parameters=layout.parameters)
    raise UnsupportedBranchError(f"values of the type {layout.form.type} have no zero", hint="give the values")
