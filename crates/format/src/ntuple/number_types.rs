//! The numbers of column types and the names of field types that are numbers (sections "Column Description" and
//! "Fundamental Types").

use crate::numbers::number::Number;

/// The types of columns of a number: plain, and split by bytes if there is such a type.
fn columns_of(number: Number) -> (u16, Option<u16>) {
    match number {
        Number::Bool => (0x00, None),
        Number::I8 => (0x03, None),
        Number::U8 => (0x04, None),
        Number::I16 => (0x05, Some(0x11)),
        Number::U16 => (0x06, Some(0x12)),
        Number::I32 => (0x07, Some(0x13)),
        Number::U32 => (0x08, Some(0x14)),
        Number::I64 => (0x09, Some(0x15)),
        Number::U64 => (0x0a, Some(0x16)),
        Number::F16 => (0x0b, Some(0x17)),
        Number::F32 => (0x0c, Some(0x18)),
        Number::F64 => (0x0d, Some(0x19)),
    }
}

/// The number that a column of this type holds, and whether it is split by bytes; None for other columns.
pub(super) fn number_of_column(column: u16) -> Option<(Number, bool)> {
    Number::ALL.into_iter().find_map(|number| match columns_of(number) {
        (plain, _) if plain == column => Some((number, false)),
        (_, Some(split)) if split == column => Some((number, true)),
        _ => None,
    })
}

/// Types of columns that hold something else than numbers.
pub(super) const BYTE: u16 = 0x01;
pub(super) const CHARACTER: u16 = 0x02;
pub(super) const INDEX_32: u16 = 0x0e;
pub(super) const INDEX_64: u16 = 0x0f;
pub(super) const SWITCH: u16 = 0x10;
pub(super) const SPLIT_INDEX_32: u16 = 0x1a;
pub(super) const SPLIT_INDEX_64: u16 = 0x1b;
pub(super) const TRUNCATED: u16 = 0x1c;
pub(super) const QUANTIZED: u16 = 0x1d;

/// The range of the values of a column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ValueRange {
    /// Lowest value.
    pub min: f64,
    /// Highest value.
    pub max: f64,
}

/// The type of a column's elements, as it is on disk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ColumnType {
    /// Number of the type.
    pub number: u16,
    /// Bits of an element.
    pub bits: u16,
    /// The values that quantized elements can have, if the schema has them.
    pub range: Option<ValueRange>,
}

impl ColumnType {
    /// The type for numbers that are written: split by bytes, which compresses better, where that is wanted and ROOT
    /// does it.
    pub fn of_numbers(number: Number, is_split: bool) -> Self {
        let (plain, split) = columns_of(number);
        // ROOT never splits half precision.
        let split = split.filter(|_| is_split && number != Number::F16);
        let bits = if number == Number::Bool { 1 } else { 8 * number.size() as u16 };
        Self { number: split.unwrap_or(plain), bits, range: None }
    }

    /// The type for ends of collections that are written.
    pub fn of_ends(is_split: bool) -> Self {
        Self { number: if is_split { SPLIT_INDEX_64 } else { INDEX_64 }, bits: 64, range: None }
    }

    /// The type for the characters of texts.
    pub const CHARACTERS: Self = Self { number: CHARACTER, bits: 8, range: None };

    /// The type for index and tag of variants.
    pub const SWITCHES: Self = Self { number: SWITCH, bits: 96, range: None };
}

/// The number that a field's type name stands for, in the normalised form of RNTuple.
pub fn number_of_type(name: &str) -> Option<Number> {
    match name.strip_prefix("std::").unwrap_or(name) {
        "byte" | "char" => Some(Number::U8),
        "Double32_t" => Some(Number::F64),
        name => Number::of_type_name(name),
    }
}

/// The type of a field of such numbers.
pub fn type_of_number(number: Number) -> &'static str {
    match number {
        Number::Bool => "bool",
        Number::I8 => "std::int8_t",
        Number::U8 => "std::uint8_t",
        Number::I16 => "std::int16_t",
        Number::U16 => "std::uint16_t",
        Number::I32 => "std::int32_t",
        Number::U32 => "std::uint32_t",
        Number::I64 => "std::int64_t",
        Number::U64 => "std::uint64_t",
        // C++ has no name for half precision; ROOT stores floats so.
        Number::F16 | Number::F32 => "float",
        Number::F64 => "double",
    }
}
