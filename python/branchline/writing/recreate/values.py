"""Converts values for a tree to named columns, and columns to the branches of a TTree with uproot's names.

Users pass types or data (`types_or_data`): mappings, awkward and NumPy arrays, DataFrames, pyarrow tables, and tables
of other libraries based on Arrow. Counters are computed from the lists. Users may also pass counters with the lists,
for example in arrays that were read from a file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeGuard

import awkward as ak
import numpy as np

from branchline.errors import OptionError
from branchline.reading.arrays.layouts import is_list, misses_lists_of_records, whole
from branchline.writing.columns.columns import NUMBERS, lists_of

if TYPE_CHECKING:
    import pyarrow
    from numpy.typing import DTypeLike

HINT = "a mapping of names to arrays, an awkward array of records, a DataFrame, a pyarrow table, or a structured array"


class PandasSeries(Protocol):
    """A column of a pandas DataFrame."""

    @property
    def name(self) -> object: ...
    @property
    def dtype(self) -> object: ...
    def isna(self) -> Iterable[bool]: ...
    def to_numpy(self, dtype: str | None = None) -> np.ndarray: ...
    def __getitem__(self, chosen: np.ndarray, /) -> PandasSeries: ...


class Frame(Protocol):
    """A DataFrame."""

    @property
    def columns(self) -> Iterable[object]: ...
    def __getitem__(self, name: object, /) -> PandasSeries: ...
    def __len__(self) -> int: ...


Columns = dict[str, ak.contents.Content]
GivenColumns = Mapping[str, ak.contents.Content]


def types_or_data(given: object) -> tuple[Columns, Columns]:
    """Return the columns that define a tree's types, and the columns with its first data.

    If ``given`` contains data, both are the same columns. If it contains types, there are no data columns.
    """
    if isinstance(given, np.dtype) and given.names is not None:
        given = {name: given[name] for name in given.names}
    if isinstance(given, ak.forms.Form):
        given = given.type
    if isinstance(given, ak.types.ArrayType):
        given = given.content
    if isinstance(given, ak.types.RecordType) and not given.is_tuple:
        given = dict(zip(given.fields, given.contents, strict=True))
    if not isinstance(given, Mapping):
        data = named_columns(given)
        return data, data
    check_names(given)
    data = {name: layout_of(kind, name) for name, kind in given.items() if _is_array(kind)}
    types = {name: empty_layout(kind, name) for name, kind in given.items() if name not in data}
    if types and any(len(layout) for layout in data.values()):
        what = f"branch {next(iter(types))} has a type, but branch {next(iter(data))} has values"
        raise OptionError(what, hint="give types for all branches, or values for all")
    columns = {name: data[name] if name in data else types[name] for name in given}
    return columns, {} if types else data


def _is_array(kind: object) -> bool:
    if isinstance(kind, Mapping):
        return bool(kind) and all(_is_array(member) for member in kind.values())
    # NumPy's scalar classes also have these methods, but are types.
    has_values = hasattr(kind, "__getitem__") and hasattr(kind, "__array__") and not isinstance(kind, type)
    return isinstance(kind, list) or has_values


def table_of(value: object) -> tuple[Columns, Columns] | None:
    """Return the type columns and data columns of a table, or of a table's form; None for any other value."""
    if isinstance(value, ak.forms.RecordForm):
        return types_or_data(value)
    is_named = bool(getattr(value, "fields", None)) and hasattr(value, "layout")
    is_structured = getattr(getattr(value, "dtype", None), "names", None) is not None
    if not (type(value) is dict or is_named or is_structured or is_frame(value) or is_arrow_table(value)):
        return None
    data = named_columns(value)
    return whole_columns(data), data


def whole_columns(columns: Columns) -> Columns:
    """Remove option types from columns without missing values."""
    return {name: whole(layout) for name, layout in columns.items()}


def description_of(given: object) -> str:
    """Return awkward's parameter ``__doc__`` of a record array, or of a record form or type; empty if not set."""
    if isinstance(given, ak.Array):
        given = given.layout
    if isinstance(given, ak.types.ArrayType):
        given = given.content
    if isinstance(given, ak.contents.Content | ak.forms.Form | ak.types.Type):
        return str(given.parameters.get("__doc__", ""))
    return ""


def named_columns(values: object) -> dict[str, ak.contents.Content]:
    """Return the columns of a table, in order. Raises OptionError for values that are not a table.

    Lists of records become one unnamed column, whose members later become branches, as in uproot.
    """
    values = as_arrow(values)
    if isinstance(values, ak.Array):
        if not values.fields:
            raise OptionError("an awkward array without field names is not a table", hint=HINT)
        if values.ndim > 1:
            return {"": layout_of(values, "")}
        return {name: layout_of(values[name], name) for name in values.fields}
    if isinstance(values, np.ndarray):
        if values.dtype.names is None:
            raise OptionError("an array without field names is not a table", hint=HINT)
        return {name: layout_of(values[name], name) for name in values.dtype.names}
    if is_arrow_table(values):
        return columns_of_table(values)
    if is_frame(values):
        twice = next((name for name, count in Counter(map(str, values.columns)).items() if count > 1), None)
        if twice is not None:
            raise OptionError(f"several columns are named {twice!r}", hint="rename them")
        values = _index_of(values) | {str(name): _of_series(values[name]) for name in values.columns}
    if not isinstance(values, Mapping):
        raise OptionError(f"a {type(values).__name__} is not a table", hint=HINT)
    check_names(values)
    return {name: layout_of(column, name) for name, column in values.items()}


def layout_of(values: object, name: str) -> ak.contents.Content:
    """Convert an array or array-like value to a layout; a DataFrame becomes records. Raises OptionError."""
    values = as_arrow(values)
    if isinstance(values, Mapping):
        columns = {member: layout_of(column, f"{name}.{member}") for member, column in values.items()}
        check_names(columns)
        lengths = {len(column) for column in columns.values()}
        if len(lengths) != 1:
            raise OptionError(f"branch {name}: its members have different lengths", hint="give each as many values")
        return ak.contents.RecordArray(list(columns.values()), list(columns), length=lengths.pop())
    if is_frame(values) or is_arrow_table(values):
        columns = named_columns(values)
        return ak.contents.RecordArray(list(columns.values()), list(columns), length=len(values))
    if is_of_arrow(values):
        return layout_of_array(values, name)
    if _is_series(values):
        values = _of_series(values)
    if type(values) is np.ndarray and values.ndim == 1 and values.dtype.kind in NUMBERS and values.dtype.isnative:
        # Avoid awkward's own conversion, which takes 0.1 ms, as long as writing about 100 kB.
        return ak.contents.NumpyArray(np.ascontiguousarray(values))
    try:
        layout = _array_of(values).layout
        if layout.is_list and not layout.is_regular and layout.parameters == {} and layout.content.is_numpy:
            # Lists of numbers that are already contiguous are not copied.
            lists = lists_of(layout)
            numbers = lists.content[: lists.offsets[-1]]
            layout = ak.contents.ListOffsetArray(lists.offsets, numbers.to_packed())
        else:
            layout = ak.to_packed(layout, highlevel=False)
    except (TypeError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        what = f"branch {name}: a value of type {type(values).__name__} cannot be converted to an array: {reason}"
        raise OptionError(what, hint="give a list or an array with a value for each entry") from error
    except RuntimeError as error:
        hint = "give them as an array of uint64, as floats, or as strings"
        raise OptionError(f"branch {name}: some integers do not fit into int64", hint=hint) from error
    if misses_lists_of_records(layout):
        hint = "replace them by empty lists, with ak.fill_none"
        raise OptionError(f"branch {name} has lists of records that are missing, not only empty ones", hint=hint)
    return layout


def _array_of(values: object) -> ak.Array:
    if isinstance(values, np.ndarray) and values.dtype == object:
        return _of_list(values.tolist())
    if isinstance(values, np.ndarray):
        if values.dtype.kind in NUMBERS:
            values = values.astype(values.dtype.newbyteorder("="), copy=False)
        return ak.from_numpy(values, regulararray=True)
    if isinstance(values, ak.Array):
        return values
    if not isinstance(values, list | tuple):
        return ak.Array(np.asarray(values))
    return _of_list(values)


def _of_list(values: Sequence[object]) -> ak.Array:
    try:
        return ak.from_iter(values)
    except RuntimeError:
        # Awkward's builder only supports integers up to int64, and NumPy converts some larger ones to floats.
        if not all(isinstance(one, int | np.integer) and 0 <= one < 2**64 for one in values):
            raise
        return ak.from_numpy(np.array(values, dtype=np.uint64))


def _is_series(values: object) -> TypeGuard[PandasSeries]:
    is_other = isinstance(values, type | np.ndarray | ak.Array)
    return hasattr(values, "to_numpy") and hasattr(values, "dtype") and not is_other


def _of_series(series: PandasSeries) -> object:
    """Return a pandas series as an array. Integers and strings with missing values keep their types."""
    if is_of_arrow(as_arrow(series)):
        return as_arrow(series)
    if not hasattr(series, "isna") or isinstance(series.dtype, np.dtype):
        return series.to_numpy()
    if getattr(series.dtype, "tz", None) is not None:
        # Without a dtype, pandas returns timestamps with a time zone as Python objects.
        return series.to_numpy("datetime64[ns]")
    is_there = ~np.asarray(series.isna())
    if is_there.all():
        return series.to_numpy()
    places = np.where(is_there, np.cumsum(is_there) - 1, -1)
    values = layout_of(series[is_there].to_numpy(), str(series.name))
    return ak.Array(ak.contents.IndexedOptionArray(ak.index.Index64(places), values))


def _index_of(frame: Frame) -> dict[str, object]:
    """Return the index of a DataFrame as the column ``index``, like uproot. Raises OptionError for several levels."""
    index: PandasSeries | None = getattr(frame, "index", None)
    levels_count = getattr(index, "nlevels", 0)
    if levels_count > 1:
        hint = "use frame.reset_index() to make columns of them, or frame.reset_index(drop=True) to drop them"
        raise OptionError(f"the index of the DataFrame has {levels_count} levels", hint=hint)
    return {} if index is None else {"index": _of_series(index)}


def is_frame(value: object) -> TypeGuard[Frame]:
    """Return whether a value is a DataFrame."""
    # Exclude awkward arrays, whose records may have fields with the names of these attributes.
    is_other = isinstance(value, type | ak.Array)
    return not is_other and hasattr(value, "columns") and hasattr(value, "to_numpy")


def check_names(names: Iterable[object]) -> None:
    """Raise OptionError for invalid branch names."""
    for name in names:
        if not isinstance(name, str) or not name or "\0" in name:
            raise OptionError(f"invalid branch name {name!r}", hint="give a non-empty string without NUL characters")


def empty_layout(kind: DTypeLike | Mapping[str, DTypeLike] | ak.types.Type, name: str) -> ak.contents.Content:
    """Return an empty layout for a NumPy or awkward type, or for a string such as ``"var * float32"``.

    Raises OptionError for an invalid type.
    """
    try:
        if kind is None:
            raise TypeError("NumPy takes None for float64")
        if isinstance(kind, ak.types.ArrayType):
            kind = kind.content
        if isinstance(kind, str):
            text = kind
            try:
                kind = np.dtype(text)
            except (TypeError, ValueError):
                kind = _awkward_type(text)
        if isinstance(kind, ak.forms.Form):
            kind = kind.type
        if isinstance(kind, Mapping):
            contents = [empty_layout(one, f"{name}.{member}") for member, one in kind.items()]
            return ak.contents.RecordArray(contents, list(kind), length=0)
        if isinstance(kind, ak.types.Type):
            return ak.forms.from_type(kind).length_zero_array(highlevel=False)
        dtype = np.dtype(kind)
        empty = np.zeros((0, *dtype.shape), dtype.base.newbyteorder("="))
        return ak.from_numpy(empty, regulararray=True, highlevel=False)
    except (TypeError, ValueError) as error:
        hint = 'give a type of NumPy, such as "float32", or of awkward, such as "var * float32" or "string"'
        raise OptionError(f"branch {name}: invalid type {kind!r}", hint=hint) from error


def _awkward_type(text: str) -> ak.types.Type:
    try:
        return ak.types.from_datashape(text, highlevel=False)
    except Exception as error:
        raise ValueError(text) from error


@dataclass(frozen=True)
class Naming:
    """Functions that name branches: ``counter`` for the counter of a list, ``member`` for a member of a record."""

    counter: Callable[[str], str] = lambda counted: f"n{counted}"
    member: Callable[[str, str], str] = lambda outer, inner: inner if outer == "" else f"{outer}_{inner}"


@dataclass(frozen=True)
class BranchValues:
    """The values of a branch. ``counter`` is the branch with the list lengths; None if there are no lists."""

    name: str
    layout: ak.contents.Content
    counter: str | None = None


def branches_of(name: str, layout: ak.contents.Content, naming: Naming) -> Iterator[BranchValues]:
    """Yield the branches of a TTree for a column.

    Each member of a record becomes a branch, and lists of numbers become arrays with a counter branch.
    """
    layout = layout.project() if layout.is_indexed and not layout.is_option else layout
    if layout.is_record:
        for member in layout.fields:
            content = layout.content(member)
            yield from branches_of(naming.member(name, member), content[: len(layout)], naming)
        return
    if not is_list(layout):
        yield BranchValues(name, layout)
        return
    lists = lists_of(layout)
    content = lists.content[: lists.offsets[-1]]
    content = content.project() if content.is_indexed and not content.is_option else content
    members = [(name, content)]
    if content.is_record:
        members = [(naming.member(name, member), content.content(member)[: len(content)]) for member in content.fields]
    for one, values in members:
        counter = naming.counter(name) if _is_fixed(values) else None
        yield BranchValues(one, ak.contents.ListOffsetArray(lists.offsets, values), counter)


def descriptions_of(layout: ak.contents.Content, path: str, text: str = "") -> Iterator[tuple[str, str]]:
    """Yield the paths and descriptions of an RNTuple field and its sub-fields, from awkward's parameter ``__doc__``.

    As in uproot, list elements without a description inherit the description of the list.
    """
    text = str(layout.parameters.get("__doc__", text))
    if layout.is_indexed and not layout.is_option:
        yield from descriptions_of(layout.content, path, text)
        return
    if text:
        yield path, text
    if layout.is_record:
        names = [f"_{place}" for place in range(len(layout.contents))] if layout.is_tuple else layout.fields
        for name, content in zip(names, layout.contents, strict=True):
            yield from descriptions_of(content, f"{path}.{name}")
    elif layout.is_union:
        for place, content in enumerate(layout.contents):
            yield from descriptions_of(content, f"{path}._{place}")
    elif not (layout.is_numpy or layout.is_unknown or layout.parameter("__array__") in ("string", "bytestring")):
        yield from descriptions_of(layout.content, f"{path}._0", text)


def _is_fixed(layout: ak.contents.Content) -> bool:
    """Return whether values are numbers or fixed-size arrays of numbers."""
    while layout.is_regular and layout.parameter("__array__") is None:
        layout = layout.content
    return bool(layout.is_numpy)


def given_counters(columns: GivenColumns, naming: Naming) -> list[str]:
    """Return the integer columns whose name is the counter name of a list column; they are written with the lists."""
    made = [one for name, layout in columns.items() for one in branches_of(name, layout[:0], naming)]
    counters = {one.counter for one in made}
    return [name for name, layout in columns.items() if name in counters and _is_whole(layout)]


def _is_whole(layout: ak.contents.Content) -> bool:
    return bool(layout.is_numpy and layout.purelist_depth == 1 and np.dtype(layout.dtype).kind in "iu")


def check_counters(filled: Sequence[BranchValues], given: GivenColumns, path: str, file_path: str) -> None:
    """Raise OptionError if lists with a common counter have different lengths, or contradict the counters ``given``."""
    counted: dict[str, BranchValues] = {}
    for one in filled:
        if one.counter is None:
            continue
        first = counted.setdefault(one.counter, one)
        # Comparing the offsets is sufficient, because `branches_of` makes all offsets start at 0.
        if first is not one and not np.array_equal(first.layout.offsets.data, one.layout.offsets.data):
            raise OptionError(
                f"tree {path}: {one.counter} cannot count both {first.name} and {one.name}: their lengths disagree",
                path=file_path,
                hint="give each its own counter with counter_name",
            )
    for name, layout in given.items():
        if not _is_whole(layout):
            hint = f"omit {name}, which is written with the lists"
            what = f"{name} must be an integer for each entry, as the counter of {counted[name].name}"
            raise OptionError(f"tree {path}: {what}", path=file_path, hint=hint)
        lengths = np.diff(counted[name].layout.offsets.data)
        numbers = np.asarray(ak.Array(layout))
        if not np.array_equal(numbers, lengths):
            row = int(np.argmax(numbers != lengths))
            counts = f"{name} is {numbers[row]} in row {row}, where {counted[name].name} has {lengths[row]} elements"
            what = f"{counts}: they disagree"
            hint = f"omit {name}, which is written with the lists, or rename it"
            raise OptionError(f"tree {path}: {what}", path=file_path, hint=hint)


def without(columns: GivenColumns, names: Collection[str]) -> dict[str, ak.contents.Content]:
    """Return all columns except those in ``names``."""
    return {name: layout for name, layout in columns.items() if name not in names}


def fitting(
    layout: ak.contents.Content, sample: ak.contents.Content, name: str, row_of: Callable[[int], int] = int
) -> ak.contents.Content:
    """Convert values to the number types of ``sample``, the branch's layout.

    Raises OptionError if that changes values by more than rounding. For the message, ``row_of`` maps an index in the
    layout to a row of the table.
    """
    if layout.is_unknown or sample.is_unknown:
        return layout
    if layout.is_numpy and sample.is_numpy and layout.data.ndim == 1 and sample.data.ndim == 1:
        have, wanted = layout.data.dtype, sample.data.dtype
        return layout if have == wanted else ak.contents.NumpyArray(_cast(layout.data, wanted, name, row_of))
    if layout.is_indexed and not layout.is_option:
        return fitting(layout.project(), sample, name, row_of)
    if sample.is_option:
        return _fitting_option(layout, sample, name, row_of)
    if layout.is_regular and sample.is_regular and layout.size == sample.size:
        content = fitting(layout.content, sample.content, name, lambda place: row_of(place // layout.size))
        return ak.contents.RegularArray(content, layout.size, len(layout))
    is_text = layout.parameter("__array__") is not None
    if layout.is_list and sample.is_list and not sample.is_regular and not is_text:
        lists = lists_of(layout)
        ends = lists.offsets.data[1:]
        content = fitting(
            lists.content, sample.content, name, lambda place: row_of(int(np.searchsorted(ends, place, "right")))
        )
        return ak.contents.ListOffsetArray(lists.offsets, content)
    are_alike = layout.is_record and sample.is_record and layout.is_tuple == sample.is_tuple
    if are_alike and set(layout.fields) == set(sample.fields):
        contents = [fitting(layout.content(one), sample.content(one), f"{name}.{one}", row_of) for one in sample.fields]
        fields = None if sample.is_tuple else sample.fields
        return ak.contents.RecordArray(contents, fields, len(layout), parameters=sample.parameters)
    return layout


def _fitting_option(
    layout: ak.contents.Content, sample: ak.contents.Content, name: str, row_of: Callable[[int], int]
) -> ak.contents.Content:
    """Convert optional values like `fitting`. Only values that are not missing have to fit."""
    index = layout.to_IndexedOptionArray64().index.data if layout.is_option else np.arange(len(layout))
    is_there = index >= 0
    rows = np.flatnonzero(is_there)
    values = layout.project() if layout.is_option else layout
    content = fitting(values, sample.content, name, lambda place: row_of(int(rows[place])))
    places = np.where(is_there, np.cumsum(is_there) - 1, -1)
    return ak.contents.IndexedOptionArray(ak.index.Index64(places), content)


def _cast(numbers: np.ndarray, wanted: np.dtype, name: str, row_of: Callable[[int], int]) -> np.ndarray:
    """Convert numbers to the dtype ``wanted``. Raises OptionError for an incompatible type or number.

    Conversions to a wider type skip the check of the values.
    """
    have = numbers.dtype
    if not np.can_cast(have, wanted, "same_kind"):
        what = f"branch {name} has the type {wanted}, but is given {have}"
        raise OptionError(what, hint="convert the array, as with .astype")
    is_narrower = len(numbers) > 0 and not np.can_cast(have, wanted, "safe")
    if is_narrower and wanted.kind in "iu":
        limits = np.iinfo(wanted)
        if int(numbers.min()) < limits.min or int(numbers.max()) > limits.max:
            raise _unfit(numbers, (numbers < limits.min) | (numbers > limits.max), wanted, name, row_of)
    try:
        # Let NumPy raise an error for finite numbers that become infinite, which is faster than comparing the values.
        with np.errstate(over="raise"):
            return numbers.astype(wanted)
    except FloatingPointError:
        with np.errstate(over="ignore"):
            became_infinite = np.isinf(numbers.astype(wanted)) & np.isfinite(numbers)
        raise _unfit(numbers, became_infinite, wanted, name, row_of) from None


def _unfit(
    numbers: np.ndarray, are_unfit: np.ndarray, wanted: np.dtype, name: str, row_of: Callable[[int], int]
) -> OptionError:
    place = int(np.argmax(are_unfit))
    what = f"branch {name} has the type {wanted}, which cannot store {numbers[place]} in row {row_of(place)}"
    return OptionError(what, hint="use a wider type for the branch, or leave out such values")


def is_like(layout: ak.contents.Content, sample: ak.contents.Content) -> bool:
    """Return whether values have the type of a branch; empty lists match every type."""
    if layout.is_unknown or sample.is_unknown:
        return True
    if layout.is_option or sample.is_option:
        return layout.is_option and sample.is_option and is_like(layout.content, sample.content)
    if layout.is_indexed or sample.is_indexed:
        return is_like(*(one.project() if one.is_indexed else one for one in (layout, sample)))
    if layout.is_numpy and sample.is_numpy:
        return bool(layout.data.dtype == sample.data.dtype and layout.data.shape[1:] == sample.data.shape[1:])
    if layout.is_numpy or sample.is_numpy:
        regular = [one.to_RegularArray() if one.is_numpy else one for one in (layout, sample)]
        return not any(one.is_numpy for one in regular) and is_like(*regular)
    if layout.is_list and sample.is_list:
        are_regular = layout.is_regular and sample.is_regular and layout.size == sample.size
        are_alike = are_regular if layout.is_regular or sample.is_regular else True
        are_alike = are_alike and layout.parameter("__array__") == sample.parameter("__array__")
        return are_alike and is_like(layout.content, sample.content)
    if layout.is_record and sample.is_record:
        are_alike = layout.is_tuple == sample.is_tuple and set(layout.fields) == set(sample.fields)
        return are_alike and all(is_like(layout.content(one), sample.content(one)) for one in sample.fields)
    return bool(layout.is_union and sample.is_union)


def is_of_arrow(value: object) -> TypeGuard[pyarrow.Array]:
    """Return whether a value is a pyarrow object, without importing pyarrow."""
    return type(value).__module__ == "pyarrow.lib"


def as_arrow(value: object) -> object:
    """Convert a polars frame or series, or a pandas series with an Arrow type, to pyarrow.

    Other values are returned unchanged.
    """
    if isinstance(value, type | ak.Array):
        return value
    if hasattr(value, "to_arrow"):
        return value.to_arrow()
    has_arrow_type = hasattr(getattr(value, "dtype", None), "pyarrow_dtype")
    array = getattr(value, "array", None) if has_arrow_type else None
    return value if array is None else array.__arrow_array__()


def is_arrow_table(value: object) -> TypeGuard[pyarrow.Table]:
    """Return whether a value is a pyarrow table or record batch."""
    return is_of_arrow(value) and hasattr(value, "column_names")


def columns_of_table(table: pyarrow.Table) -> dict[str, ak.contents.Content]:
    """Return the columns of a table, in order. Raises OptionError for duplicate names."""
    names = table.column_names
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise OptionError(f"the table has two columns {twice}", hint="rename one of them, with rename_columns")
    return {name: layout_of_array(table.column(name), name, table.schema.field(name)) for name in names}


def layout_of_array(values: pyarrow.Array, name: str, field: pyarrow.Field | None = None) -> ak.contents.Content:
    """Convert an Arrow array to a layout. ``field`` defines whether the values are nullable (default: nullable).

    Raises OptionError for types without an awkward equivalent, and UnsupportedBranchError for null lists of records.
    """
    # Imported lazily, because pyarrow is an optional dependency. It is installed if the user passes an Arrow array.
    import pyarrow as pa

    from branchline.reading.parquet.parquet_columns import as_type, layout_of_arrow, plain_type, why_unreadable

    reason = why_unreadable(values.type)
    if reason is not None:
        raise OptionError(f"{name}: {reason}", hint="convert the column, or leave it out")
    kind = plain_type(values.type, keeps_extensions=False)
    field = pa.field(name, kind) if field is None else field.with_type(kind)
    return ak.to_packed(layout_of_arrow(as_type(values, kind), field, is_whole=False), highlevel=False)
