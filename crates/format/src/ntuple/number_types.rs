//! Column types and field type names for numbers (sections "Column Description" and "Fundamental Types").
//!
//! ```
//! use branchline_format::ntuple::number_types::{number_of_type, type_of_number};
//! use branchline_format::numbers::number::Number;
//!
//! assert_eq!(number_of_type("std::int64_t"), Some(Number::I64));
//! assert_eq!(type_of_number(Number::F32), "float");
//! ```

use crate::numbers::number::Number;

/// The column types for a number type: the plain type, and the byte-split type if the format has one.
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

/// The number type of a column type, and whether the column is byte-split; None for other column types.
pub(super) fn number_of_column(column: u16) -> Option<(Number, bool)> {
    Number::ALL.into_iter().find_map(|number| match columns_of(number) {
        (plain, _) if plain == column => Some((number, false)),
        (_, Some(split)) if split == column => Some((number, true)),
        _ => None,
    })
}

/// Column type `Byte` of the format.
pub(super) const BYTE: u16 = 0x01;
pub(super) const CHARACTER: u16 = 0x02;
pub(super) const INDEX_32: u16 = 0x0e;
pub(super) const INDEX_64: u16 = 0x0f;
pub(super) const SWITCH: u16 = 0x10;
pub(super) const SPLIT_INDEX_32: u16 = 0x1a;
pub(super) const SPLIT_INDEX_64: u16 = 0x1b;
pub(super) const TRUNCATED: u16 = 0x1c;
pub(super) const QUANTIZED: u16 = 0x1d;

/// Range of a column's values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ValueRange {
    /// Minimum value.
    pub min: f64,
    /// Maximum value.
    pub max: f64,
}

/// The on-disk type of a column's elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ColumnType {
    /// Code of the type in the format.
    pub number: u16,
    /// Number of bits per element.
    pub bits: u16,
    /// Value range of a quantized column.
    pub range: Option<ValueRange>,
}

impl ColumnType {
    /// Column type for writing numbers. If `is_split` is set, selects the byte-split type, which compresses better,
    /// provided that ROOT supports it for this number type.
    pub fn of_numbers(number: Number, is_split: bool) -> Self {
        let (plain, split) = columns_of(number);
        // ROOT never uses the byte-split type for half precision.
        let split = split.filter(|_| is_split && number != Number::F16);
        let bits = if number == Number::Bool { 1 } else { 8 * number.size() as u16 };
        Self { number: split.unwrap_or(plain), bits, range: None }
    }

    /// Column type for writing collection ends.
    pub fn of_ends(is_split: bool) -> Self {
        Self { number: if is_split { SPLIT_INDEX_64 } else { INDEX_64 }, bits: 64, range: None }
    }

    /// Column type for the characters of strings.
    pub const CHARACTERS: Self = Self { number: CHARACTER, bits: 8, range: None };

    /// Column type for the index and tag of variants.
    pub const SWITCHES: Self = Self { number: SWITCH, bits: 96, range: None };
}

/// The number type for a normalized field type name.
pub fn number_of_type(name: &str) -> Option<Number> {
    match name.strip_prefix("std::").unwrap_or(name) {
        "byte" | "char" => Some(Number::U8),
        "Double32_t" => Some(Number::F64),
        name => Number::of_type_name(name),
    }
}

/// The field type name of a number type.
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
        // C++ has no type name for half precision. ROOT uses half precision only to store float fields.
        Number::F16 | Number::F32 => "float",
        Number::F64 => "double",
    }
}
