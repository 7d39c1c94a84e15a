"""Random columns of all Arrow types, as pyarrow tables and as DataFrames of polars and pandas."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

# Letters that ROOT prints without escapes, and that cannot form "nan" or "inf".
LETTERS = "abcxyz \u00e9"
NUMBERS = [
    pa.bool_(), pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64(),
    pa.float16(), pa.float32(), pa.float64(),
]  # fmt: skip
TEXTS = [pa.string(), pa.large_string(), pa.string_view()]
# Types that ROOT or awkward may not support. Their columns are kept or refused.
OTHERS = [
    pa.binary(), pa.large_binary(), pa.binary(3), pa.null(), pa.date32(), pa.date64(), pa.timestamp("s"),
    pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("us", "UTC"), pa.time32("s"),
    pa.time64("us"), pa.duration("ns"), pa.decimal128(10, 2), pa.dictionary(pa.int32(), pa.string()),
]  # fmt: skip
NAMES = ("pt", "n", "x1", "Jet", "caf\u00e9", "a_b", "columns", "dtype", "class")
NULLABLE = {
    pa.bool_(): pd.BooleanDtype(), pa.int8(): pd.Int8Dtype(), pa.int16(): pd.Int16Dtype(), pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(), pa.uint8(): pd.UInt8Dtype(), pa.uint16(): pd.UInt16Dtype(),
    pa.uint32(): pd.UInt32Dtype(), pa.uint64(): pd.UInt64Dtype(), pa.float32(): pd.Float32Dtype(),
    pa.float64(): pd.Float64Dtype(), pa.string(): pd.StringDtype(),
}  # fmt: skip


@dataclass
class Drawn:
    """A table or DataFrame, with the types and values of its columns."""

    source: str
    frame: Any
    types: dict[str, pa.DataType]
    values: dict[str, list[Any]]


def draw_type(rng: Random, depth: int = 2) -> pa.DataType:
    draw = rng.random()
    if depth == 0 or draw < 0.5:
        return rng.choice(NUMBERS)
    if draw < 0.6:
        return rng.choice(TEXTS)
    if draw < 0.66:
        return rng.choice(OTHERS)
    if draw < 0.84:
        return rng.choice((pa.list_, pa.list_, pa.large_list))(draw_type(rng, depth - 1))
    if draw < 0.9:
        return pa.list_(draw_type(rng, depth - 1), rng.randint(1, 3))
    if draw < 0.98:
        names = rng.sample(("x", "y", "pt", "n"), rng.randint(1, 3))
        return pa.struct([(name, draw_type(rng, depth - 1)) for name in names])
    return pa.map_(pa.string(), draw_type(rng, depth - 1))


def draw_value(rng: Random, of: pa.DataType, nulls: float) -> Any:
    """Return a random value of a type, or None in a fraction ``nulls`` of the draws."""
    if pa.types.is_null(of) or rng.random() < nulls:
        return None
    if pa.types.is_struct(of):
        return {one.name: draw_value(rng, one.type, nulls) for one in of}
    if pa.types.is_map(of):
        return [(f"k{i}", draw_value(rng, of.item_type, nulls)) for i in range(rng.randint(0, 2))]
    if pa.types.is_fixed_size_list(of):
        return [draw_value(rng, of.value_type, nulls) for _ in range(of.list_size)]
    if pa.types.is_list(of) or pa.types.is_large_list(of):
        return [draw_value(rng, of.value_type, nulls) for _ in range(rng.choice((0, 0, 1, 3)))]
    return draw_scalar(rng, of)


def draw_scalar(rng: Random, of: pa.DataType) -> Any:
    if pa.types.is_boolean(of):
        return rng.random() < 0.5
    if pa.types.is_integer(of):
        limits = np.iinfo(of.to_pandas_dtype())
        return rng.choice((0, 1, limits.min, limits.max, rng.randint(limits.min, limits.max)))
    if pa.types.is_floating(of):
        value = rng.choice((0.0, -0.0, float("nan"), float("inf"), rng.uniform(-1000, 1000), rng.uniform(-1, 1)))
        return of.to_pandas_dtype()(value).item() if not pa.types.is_float16(of) else np.float16(value)
    if pa.types.is_decimal(of):
        return decimal.Decimal(rng.randint(-1000, 1000)) / 100
    if pa.types.is_fixed_size_binary(of):
        return rng.randbytes(3)
    if pa.types.is_binary(of) or pa.types.is_large_binary(of):
        return rng.randbytes(rng.randint(0, 4))
    if pa.types.is_temporal(of):
        return _moment(rng, of)
    return "".join(rng.choices(LETTERS, k=rng.choice((0, 1, 3, 5, 300))))


def _moment(rng: Random, of: pa.DataType) -> Any:
    seconds = rng.randint(0, 80_000)
    if pa.types.is_duration(of):
        return datetime.timedelta(seconds=seconds)
    if pa.types.is_time(of):
        return (datetime.datetime(2020, 1, 1) + datetime.timedelta(seconds=seconds)).time()
    moment = datetime.datetime(2020, 1, 1) + datetime.timedelta(days=rng.randint(0, 1000), seconds=seconds)
    if pa.types.is_date(of):
        return moment.date()
    return moment.replace(tzinfo=datetime.UTC) if of.tz else moment


def as_pandas_of_numpy(table: pa.Table) -> pd.DataFrame:
    return table.to_pandas()


def as_nullable_pandas(table: pa.Table) -> pd.DataFrame:
    return table.to_pandas(types_mapper=NULLABLE.get)


def as_arrow_backed_pandas(table: pa.Table) -> pd.DataFrame:
    return table.to_pandas(types_mapper=pd.ArrowDtype)


def as_series_of_polars(table: pa.Table) -> dict[str, Any]:
    return {name: pl.from_arrow(table.column(name)) for name in table.column_names}


def as_columns_of_arrow(table: pa.Table) -> dict[str, Any]:
    return {name: table.column(name) for name in table.column_names}


SOURCES: list[Callable[[pa.Table], Any]] = [
    pa.table, pl.from_arrow, as_arrow_backed_pandas, as_nullable_pandas, as_pandas_of_numpy, as_series_of_polars,
    as_columns_of_arrow,
]  # fmt: skip


def draw_frame(rng: Random) -> Drawn:
    """Draw a table or DataFrame with a few columns, in one or several chunks. Chunks may be slices of larger arrays."""
    rows, nulls = rng.choice((0, 1, 2, 5, 12)), rng.choice((0.0, 0.0, 0.2))
    columns, types = {}, {}
    for name in rng.sample(NAMES, rng.randint(1, 4)):
        of = draw_type(rng)
        values = [draw_value(rng, of, nulls) for _ in range(rows + 2)]
        whole = pa.array(values, of)
        cut = rng.randint(0, rows)
        parts = [whole[1 : 1 + cut], whole[1 + cut : 1 + rows]] if rng.random() < 0.3 else [whole[1 : 1 + rows]]
        columns[name], types[name] = pa.chunked_array(parts, of), of
    table = pa.table(columns)
    has_records = any("map<" in str(of) or "struct<" in str(of) for of in types.values())
    # pandas converts records to tuples and dicts, which have no types, unless it keeps Arrow columns.
    makes_objects = (as_pandas_of_numpy, as_nullable_pandas)
    make = rng.choice([one for one in SOURCES if not has_records or one not in makes_objects])
    if make is as_pandas_of_numpy or make is as_nullable_pandas:
        frame = make(table)
        values = {name: frame[name].tolist() for name in columns}
    else:
        frame = make(table)
        values = {name: column.to_pylist() for name, column in columns.items()}
    return Drawn(getattr(make, "__name__", str(make)), frame, types, values)
