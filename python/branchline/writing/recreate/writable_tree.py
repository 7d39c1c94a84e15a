"""WritableTree: a TTree or an RNTuple that is being filled.

Columns can be added to a tree that already has entries. Compression is specified as a string such as "zstd:5", as one
of ROOT's compression settings such as 505, or as an object of uproot.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import awkward as ak
import numpy as np

from branchline import _core
from branchline.base.quantities import parse_bytes
from branchline.errors import BranchlineWarning, NoSuchKeyError, OptionError, UnsupportedBranchError, warn
from branchline.reading.arrays.layouts import misses, whole
from branchline.writing.columns.columns import column_of, has_nul, missing_error
from branchline.writing.columns.fields import NOT_IN_NAMES, ShownField
from branchline.writing.columns.output_file import CLUSTER_BYTES, PAGE_BYTES, Layout, NewTable
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

#: Matches codecs in uproot's notation, such as ZSTD(5).
_CALL = re.compile(r"(\w+)\((\d+)\)")


@dataclass(slots=True)
class WritableTree:
    """A TTree or an RNTuple of a file that is being written.

    ``extend`` adds entries, and raises OptionError for columns that differ from the tree's columns. Full clusters are
    compressed on all cores and written, so memory stays bounded. The codec defaults to the file's codec; ``mktree``
    can select a different one.

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
        """Name of the tree."""
        return self.path.rpartition("/")[2]

    def keys(self) -> list[str]:
        """Return the names of the tree's branches or fields, including counters.

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
        """Return a branch, whose compression can be set. Raises NoSuchKeyError."""
        if name not in self._names:
            hint = f"there are {', '.join(self._names)}"
            raise NoSuchKeyError(f"tree {self.path} has no branch {name!r}", path=self.file_path, hint=hint)
        return WritableBranch(self, name)

    @property
    def compression(self) -> str:
        """Codec of all branches that have no codec of their own. It can be set until the first entry is added.

        For a TTree, it can also be set to a mapping from branch names to codecs.
        """
        return self._table.layout.codec

    @compression.setter
    def compression(self, compression: object) -> None:
        codec, codecs = self.compression, {}
        given = compression if isinstance(compression, Mapping) else dict.fromkeys(self._names, compression)
        own = {self[name].name: codec_of(one) for name, one in given.items()}
        if len({*own.values()}) == 1 and len(own) == len(self._names):
            codec = next(iter(own.values()))
        elif self.classname != "TTree":
            what = f"RNTuple {self.path}: all its fields have the same codec"
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

    def extend(self, values: object, *, accept_new_fields: bool = False) -> None:
        """Add entries from a mapping, an awkward array of records, or a DataFrame with the columns of the tree.

        The values may include counters of lists. With ``accept_new_fields``, columns that are not in the tree yet are
        added; they are 0 or empty in earlier entries.

        Raises OptionError (a ValueError) for missing or unknown columns, for columns of different lengths, and for
        values that do not fit into the branch. No entries are added in this case, and the tree stays usable. Raises
        StorageError if the file cannot be written.

            >>> with branchline.recreate("out.root") as file:
            ...     tree = file.mktree("events", {"x": "float32"})
            ...     for step in range(3):
            ...         tree.extend({"x": [step, step + 0.5]})
            ...     tree.num_entries
            6
        """
        given = named_columns(values)
        if is_frame(values) and "index" not in self._columns:
            given.pop("index", None)  # the tree was created without one
        given = self._flat(given)
        if accept_new_fields:
            self._add({name: zeros_of(layout, self.num_entries) for name, layout in self._new(given).items()})
        self._extend(given)
        self._core_file.publish()

    def add_branches(self, values: object) -> None:
        """Add branches or fields with values for all existing entries.

        Raises OptionError for existing names and for a wrong number of values, and UnsupportedBranchError.

            >>> with branchline.recreate("out.root") as file:
            ...     tree = file.mktree("events", {"x": [1, 2]})
            ...     tree.add_branches({"y": [0.5, 1.5]})
            ...     tree.keys()
            ['x', 'y']
        """
        self._add(named_columns(values))
        self._core_file.publish()

    def add_fields(self, types: object) -> None:
        """Add fields or branches with the given types. They are 0 or empty in existing entries.

        In an RNTuple, a name such as ``"jet.pt"`` adds a member to the record ``jet``. Raises OptionError for existing
        names and for members of fields that are not records, and UnsupportedBranchError.

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
        """Split records into columns named like branches, for a tree that was created from records and reopened."""
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
                what = f"tree {self.path} has {self.num_entries} entries, but {name} has {len(layout)} values"
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
        """Add entries that have been converted to columns."""
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
            # Check all columns before adding any, so that the tree stays usable after an error.
            if not is_like(columns[name], sample):
                have, wanted = (one.form.type for one in (given[name], sample))
                refused = f"tree {self.path}: branch {name} has the type {wanted}, but is given {have}"
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
        """Codec of the branch's baskets. It can be set until the first entry is added."""
        return self.tree._table.codecs.get(self.name, self.tree.compression)

    @compression.setter
    def compression(self, compression: object) -> None:
        self.tree.compression = {self.name: compression}


def new_table(
    name: str, title: str, columns: Mapping[str, ak.contents.Content], naming: Naming, codec: str, *, is_ntuple: bool
) -> NewTable:
    """Return the tree to create for ``columns``. Raises OptionError for duplicate names and unknown types."""
    if is_ntuple and "" in columns:
        hint = "name it, as in {'jets': array}, or write a TTree, with mktree"
        raise OptionError(f"RNTuple {name}: a list of records needs a column name", hint=hint)
    made = list(branches({one: layout[:0] for one, layout in columns.items()}, naming, is_ntuple=is_ntuple))
    names = [one.name for one in made]
    unparsable = next((one for one in names if "[" in one or "]" in one), None)
    if unparsable is not None and not is_ntuple:
        what = f"tree {name!r}: ROOT takes the brackets of {unparsable!r} for dimensions and cannot find the branch"
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
        raise UnsupportedBranchError(f"tree {name}: {empty}: cannot store arrays with 0 elements", hint="leave it out")
    unknown = next((one.name for one in made if _has_unknown(one.layout)), None)
    if unknown is not None:
        hint = "give it one with ak.values_astype, or make the tree with mktree"
        raise UnsupportedBranchError(
            f"tree {name}: the type of {unknown} is unknown, because it has no values", hint=hint
        )
    columns_made = [column_of(one.layout, one.name) for one in made]
    counters = [one.counter for one in made]
    descriptions = [_descriptions(one) for one in made]
    shown: list[ShownField] | None = [] if is_ntuple else None
    return NewTable(name, title, layout_with(codec), names, columns_made, counters, descriptions, {}, shown)


def layout_with(codec: str) -> Layout:
    """Return the default layout with this codec."""
    return Layout(codec, None, parse_bytes(CLUSTER_BYTES), parse_bytes(PAGE_BYTES))


def check_texts(columns: Mapping[str, ak.contents.Content], path: str, file_path: str) -> None:
    """Raise OptionError for strings that contain a NUL character, because ROOT truncates strings there."""
    for name, layout in columns.items():
        if has_nul(layout):
            what = f"tree {path}: a string of branch {name} has a NUL character, at which ROOT would truncate it"
            raise OptionError(what, path=file_path, hint="write an RNTuple, with mkrntuple, or remove it")


def branches(columns: Mapping[str, ak.contents.Content], naming: Naming, *, is_ntuple: bool) -> Iterator[BranchValues]:
    """Yield the branches (TTree) or fields (RNTuple) for ``columns``."""
    for name, layout in columns.items():
        if is_ntuple:
            yield BranchValues(name, layout)
        else:
            yield from branches_of(name, layout, naming)


def length_of(columns: Mapping[str, ak.contents.Content], path: str, file_path: str) -> int:
    """Return the common length of all columns. Raises OptionError if their lengths differ."""
    lengths = {name: len(layout) for name, layout in columns.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} has {count}" for name, count in lengths.items())
        raise OptionError(
            f"tree {path}: its columns have different lengths: {shown}",
            path=file_path,
            hint="give each column a value or a list for each entry",
        )
    return next(iter(lengths.values()), 0)


def _field_names(columns: Mapping[str, ak.contents.Content]) -> Iterator[str]:
    """Yield the names of fields and nested fields."""
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
    """Return whether a layout is, or contains, an array of fixed length 0."""
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


def codec_of(compression: object) -> str:
    """Normalize a compression setting to a codec such as ``zstd:5``.

    Accepts ``"zstd:5"``, ``"ZSTD(5)"``, ROOT's ``505``, ``uproot.ZSTD(5)``, and None for no compression. Raises
    OptionError for other values.
    """
    if compression is None:
        return "none"
    code = getattr(compression, "code", compression)
    if isinstance(code, int) and not isinstance(code, bool):
        return str(code)
    if isinstance(code, str):
        return _CALL.sub(r"\1:\2", code.strip())
    raise OptionError(f"invalid compression {compression!r}", hint='write it like "zstd:5", "lz4", 505 or None')


@dataclass
class AddedColumns:
    """The columns of a tree to which new columns are being added."""

    columns: dict[str, ak.contents.Content]
    path: str
    file_path: str

    def add(self, name: str, sample: ak.contents.Content, *, is_nested: bool) -> None:
        """Add a column. With ``is_nested``, a name such as ``jet.pt`` adds a member to a record. Raises OptionError."""
        first, _, rest = name.partition(".") if is_nested else (name, "", "")
        if not rest:
            if name in self.columns:
                raise self.taken_error(name)
            self.columns[name] = sample
        elif first not in self.columns:
            raise self._error(f"cannot add {name}: no record {first} found")
        else:
            self.columns[first] = self._with_member(self.columns[first], rest.split("."), name, sample)

    def _with_member(
        self, record: ak.contents.Content, parts: list[str], name: str, sample: ak.contents.Content
    ) -> ak.contents.Content:
        if not record.is_record or record.is_tuple:
            what = f"cannot add {name}: the parent has the type {record.form.type} and is not a record"
            raise self._error(what)
        own, *rest = parts
        members = {field: record.content(field) for field in record.fields}
        if rest:
            if own not in members:
                raise self._error(f"cannot add {name}: no record {own} found")
            members[own] = self._with_member(members[own], rest, name, sample)
        elif own in members:
            raise self.taken_error(name)
        else:
            members[own] = sample
        return ak.contents.RecordArray(list(members.values()), list(members), len(record), parameters=record.parameters)

    def taken_error(self, name: str) -> OptionError:
        """Return the error for a name that already exists."""
        return self._error(f"{name} already exists")

    def _error(self, what: str) -> OptionError:
        hint = f"the columns are {', '.join(self.columns)}"
        return OptionError(f"tree {self.path}: {what}", path=self.file_path, hint=hint)


def zeros_of(layout: ak.contents.Content, count: int) -> ak.contents.Content:
    """Return ``count`` default values (zero, empty or missing) of a type. Raises UnsupportedBranchError for unions."""
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
    raise UnsupportedBranchError(f"values of type {layout.form.type} have no zero", hint="give the values")
