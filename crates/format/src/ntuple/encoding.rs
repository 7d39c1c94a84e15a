//! Encodings of column elements in pages (section "Column Description").
//!
//! ```
//! use branchline_format::ntuple::number_types::ColumnType;
//! use branchline_format::numbers::number::Number;
//!
//! let encoding = ColumnType::of_numbers(Number::F32, true).encoding()?;
//! assert_eq!((encoding.natural(), encoding.page_size(10)), (Some(Number::F32), 40));
//! # Ok::<(), String>(())
//! ```

use std::array;
use std::ops::Range;

use pulp::Arch;

use crate::error::{FormatError, Result};

use super::convert::convert;
use super::number_types::{
    number_of_column, ColumnType, ValueRange, BYTE, CHARACTER, INDEX_32, INDEX_64, QUANTIZED, SPLIT_INDEX_32,
    SPLIT_INDEX_64, SWITCH, TRUNCATED,
};
use crate::numbers::number::Number;

/// Encoding kind of column elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Booleans with one bit per element. The first element is the least significant bit of a byte.
    Bit,
    /// Little-endian numbers without further encoding.
    Plain(Number),
    /// Byte-split numbers: first the lowest byte of every number, then the second byte of every number, and so on.
    /// Signed integers are zigzag-encoded.
    Split(Number),
    /// Collection ends.
    Index(Number),
    /// Collection ends, delta-encoded within a page and byte-split.
    SplitIndex(Number),
    /// Index and tag of a variant.
    Switch,
    /// Bit-packed floats without the lowest bits of the mantissa.
    Truncated,
    /// Bit-packed integers that count equal steps between `min` and `max`.
    Quantized {
        /// Minimum of the value range.
        min: f64,
        /// Maximum of the value range.
        max: f64,
    },
}

/// One element of a variant column (section "Column Description", column type Switch).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Switch {
    /// Index of the value in the column of its alternative, relative to the start of the cluster.
    pub index: u64,
    /// Number of the alternative, starting at 1; 0 if the variant has no value.
    pub tag: u32,
}

impl Kind {
    /// Return the kind with unsigned bytes replaced by signed bytes. Other kinds are unchanged.
    pub(super) fn signed(self) -> Self {
        if self == Self::Plain(Number::U8) {
            Self::Plain(Number::I8)
        } else {
            self
        }
    }
}

/// Encoding kind and bit width of a column's elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Encoding {
    /// The encoding kind.
    pub kind: Kind,
    /// Number of bits per element.
    pub bits: usize,
}

/// Encoding kind of an on-disk column type, and its number of bits per element. The number is None for bit-packed
/// types, whose width is in the schema.
fn kind_of(column: u16, range: Option<ValueRange>) -> Option<(Kind, Option<usize>)> {
    let of = |kind: fn(Number) -> Kind, number: Number| (kind(number), Some(8 * number.size()));
    Some(match column {
        BYTE | CHARACTER => of(Kind::Plain, Number::U8),
        INDEX_32 => of(Kind::Index, Number::U32),
        INDEX_64 => of(Kind::Index, Number::U64),
        SPLIT_INDEX_32 => of(Kind::SplitIndex, Number::U32),
        SPLIT_INDEX_64 => of(Kind::SplitIndex, Number::U64),
        SWITCH => (Kind::Switch, Some(96)),
        TRUNCATED => (Kind::Truncated, None),
        QUANTIZED => range.map(|ValueRange { min, max }| (Kind::Quantized { min, max }, None))?,
        _ => match number_of_column(column)? {
            (Number::Bool, _) => (Kind::Bit, Some(1)),
            (number, false) => of(Kind::Plain, number),
            (number, true) => of(Kind::Split, number),
        },
    })
}

impl ColumnType {
    /// The encoding of this column type. Fails for column types of later format versions.
    pub fn encoding(&self) -> std::result::Result<Encoding, String> {
        Encoding::new(self.number, self.bits, self.range)
    }
}

impl Encoding {
    /// The encoding of an on-disk column type with this bit width and value range. Fails for unknown types and widths;
    /// the error is a message for users.
    pub fn new(number: u16, bits: u16, range: Option<ValueRange>) -> std::result::Result<Self, String> {
        let bits = usize::from(bits);
        let wrong = || format!("unknown column type {number:#04x} with {bits} bits");
        let (kind, width) = kind_of(number, range).ok_or_else(wrong)?;
        let fits = match kind {
            Kind::Truncated => (10..=31).contains(&bits),
            Kind::Quantized { .. } => (1..=32).contains(&bits),
            Kind::Bit | Kind::Plain(_) | Kind::Split(_) | Kind::Index(_) | Kind::SplitIndex(_) | Kind::Switch => {
                width == Some(bits)
            }
        };
        if fits {
            Ok(Self { kind, bits })
        } else {
            Err(wrong())
        }
    }

    /// The number type that elements decode to without conversion; None for collection ends and variants.
    pub fn natural(&self) -> Option<Number> {
        match self.kind {
            Kind::Bit => Some(Number::Bool),
            Kind::Plain(number) | Kind::Split(number) => Some(number),
            Kind::Truncated => Some(Number::F32),
            Kind::Quantized { .. } => Some(Number::F64),
            Kind::Index(_) | Kind::SplitIndex(_) | Kind::Switch => None,
        }
    }

    /// Whether the elements are collection ends.
    pub fn is_index(&self) -> bool {
        matches!(self.kind, Kind::Index(_) | Kind::SplitIndex(_))
    }

    /// Whether decoding needs a second buffer besides the decompressed page.
    pub(super) fn is_staged(&self) -> bool {
        matches!(self.kind, Kind::SplitIndex(_))
    }

    /// Uncompressed size of a page with `elements_count` elements.
    pub fn page_size(&self, elements_count: u64) -> u64 {
        (elements_count * self.bits as u64).div_ceil(8)
    }

    /// Size of an element after decoding, in bytes.
    pub fn decoded_size(&self) -> usize {
        match self.kind {
            Kind::Index(_) | Kind::SplitIndex(_) => 8,
            Kind::Switch => 9,
            Kind::Bit | Kind::Plain(_) | Kind::Split(_) | Kind::Truncated | Kind::Quantized { .. } => {
                self.natural().map_or(8, Number::size)
            }
        }
    }

    /// Whether a page can be copied as native numbers of type `number` without decoding.
    pub(super) fn is_native(&self, number: Number) -> bool {
        cfg!(target_endian = "little") && self.kind == Kind::Plain(number)
    }

    /// Decode the `wanted` elements of a page of `count` elements into numbers of type `number`. `out` must have
    /// exactly the right size.
    pub(super) fn numbers(
        &self,
        plain: &[u8],
        count: usize,
        wanted: Range<usize>,
        number: Number,
        out: &mut [u8],
    ) -> Result<()> {
        let natural = self.natural().ok_or_else(|| FormatError::internal("an index column is decoded as numbers"))?;
        if natural == number {
            self.natural_numbers(plain, count, wanted, out);
            return Ok(());
        }
        let mut values = vec![0; natural.size() * wanted.len()];
        self.natural_numbers(plain, count, wanted, &mut values);
        convert(natural, &values, number, out)
    }

    fn natural_numbers(&self, plain: &[u8], count: usize, wanted: Range<usize>, out: &mut [u8]) {
        match self.kind {
            Kind::Bit => {
                for (place, index) in out.iter_mut().zip(wanted) {
                    *place = plain[index / 8] >> (index % 8) & 1;
                }
            }
            Kind::Plain(number) => {
                out.copy_from_slice(&plain[number.size() * wanted.start..number.size() * wanted.end]);
                to_native(number.size(), out);
            }
            Kind::Split(number) => {
                unsplit(number.size(), plain, count, wanted, out);
                if number.is_signed() {
                    unzigzag(number.size(), out);
                }
                to_native(number.size(), out);
            }
            Kind::Truncated => {
                let unused = 32 - self.bits;
                for (place, index) in out.as_chunks_mut::<4>().0.iter_mut().zip(wanted) {
                    *place = (packed(plain, index, self.bits) << unused).to_ne_bytes();
                }
            }
            Kind::Quantized { min, max } => {
                // Use the same formula as ROOT (RColumnElement's UnquantizeReals) to get bit-identical results.
                let scale = (max - min) / ((1u64 << self.bits) - 1) as f64;
                for (place, index) in out.as_chunks_mut::<8>().0.iter_mut().zip(wanted) {
                    let step = f64::from(packed(plain, index, self.bits));
                    *place = (step * scale + min).to_ne_bytes();
                }
            }
            Kind::Index(_) | Kind::SplitIndex(_) | Kind::Switch => {}
        }
    }

    /// Decode the `wanted` collection ends of a page of `count` elements and append them to `out`.
    pub(super) fn indexes(
        &self,
        plain: &[u8],
        count: usize,
        wanted: Range<usize>,
        staging: &mut Vec<u8>,
        out: &mut Vec<u64>,
    ) -> Result<()> {
        let end = wanted.end;
        let (number, is_split) = match self.kind {
            Kind::Index(number) => (number, false),
            Kind::SplitIndex(number) => (number, true),
            Kind::Bit | Kind::Plain(_) | Kind::Split(_) | Kind::Switch | Kind::Truncated | Kind::Quantized { .. } => {
                return Err(FormatError::internal("a column of numbers is decoded as an index"));
            }
        };
        let size = number.size();
        if !is_split {
            let stored = &plain[size * wanted.start..size * end];
            match size {
                4 => out.extend(stored.as_chunks::<4>().0.iter().map(|raw| u64::from(u32::from_le_bytes(*raw)))),
                _ => out.extend(stored.as_chunks::<8>().0.iter().map(|raw| u64::from_le_bytes(*raw))),
            }
            return Ok(());
        }
        // Decode from the start of the page, because each value is stored as a difference from the previous value.
        staging.resize(staging.len().max(size * end), 0);
        let together = &mut staging[..size * end];
        unsplit(size, plain, count, 0..end, together);
        match size {
            4 => {
                let sums = together.as_chunks::<4>().0.iter().scan(0u32, |sum, raw| {
                    *sum = sum.wrapping_add(u32::from_le_bytes(*raw));
                    Some(u64::from(*sum))
                });
                out.extend(sums.skip(wanted.start));
            }
            _ => {
                let sums = together.as_chunks::<8>().0.iter().scan(0u64, |sum, raw| {
                    *sum = sum.wrapping_add(u64::from_le_bytes(*raw));
                    Some(*sum)
                });
                out.extend(sums.skip(wanted.start));
            }
        }
        Ok(())
    }

    /// Decode the `wanted` elements of a page of variants and append them to `out`.
    pub(super) fn switches(&self, plain: &[u8], wanted: Range<usize>, out: &mut Vec<Switch>) -> Result<()> {
        if self.kind != Kind::Switch {
            return Err(FormatError::internal("a column that is not a variant column is decoded as one"));
        }
        for raw in plain[12 * wanted.start..12 * wanted.end].as_chunks::<12>().0 {
            let [i0, i1, i2, i3, i4, i5, i6, i7, tag @ ..] = *raw;
            let index = u64::from_le_bytes([i0, i1, i2, i3, i4, i5, i6, i7]);
            out.push(Switch { index, tag: u32::from_le_bytes(tag) });
        }
        Ok(())
    }
}

/// Convert little-endian numbers to native byte order.
fn to_native(size: usize, values: &mut [u8]) {
    if cfg!(target_endian = "big") {
        values.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
}

/// Extract an integer of `bits` bits from a bit-packed sequence, least significant bit first.
pub(super) fn packed(plain: &[u8], index: usize, bits: usize) -> u32 {
    let start = index * bits;
    let last = (start + bits).div_ceil(8);
    let mut wide = 0u64;
    for (place, byte) in plain[start / 8..last].iter().enumerate() {
        wide |= u64::from(*byte) << (8 * place);
    }
    (wide >> (start % 8)) as u32 & (u32::MAX >> (32 - bits))
}

/// Join the split bytes of each of the `wanted` elements.
fn unsplit(size: usize, plain: &[u8], count: usize, wanted: Range<usize>, out: &mut [u8]) {
    match size {
        2 => unsplit_of::<2>(plain, count, wanted, out),
        4 => unsplit_of::<4>(plain, count, wanted, out),
        8 => unsplit_of::<8>(plain, count, wanted, out),
        _ => out.copy_from_slice(&plain[wanted]),
    }
}

fn unsplit_of<const SIZE: usize>(plain: &[u8], count: usize, wanted: Range<usize>, out: &mut [u8]) {
    let (out, _) = out.as_chunks_mut::<SIZE>();
    let wanted_count = out.len();
    let planes: [&[u8]; SIZE] = array::from_fn(|byte| &plain[byte * count..][wanted.clone()][..wanted_count]);
    Arch::new().dispatch(|| {
        for index in 0..wanted_count {
            out[index] = array::from_fn(|byte| planes[byte][index]);
        }
    });
}

/// Decode zigzag-encoded little-endian integers.
fn unzigzag(size: usize, values: &mut [u8]) {
    macro_rules! of {
        ($unsigned:ty, $size:literal) => {
            Arch::new().dispatch(|| {
                for raw in values.as_chunks_mut::<$size>().0 {
                    let value = <$unsigned>::from_le_bytes(*raw);
                    *raw = (value >> 1 ^ (value & 1).wrapping_neg()).to_le_bytes();
                }
            })
        };
    }
    match size {
        2 => of!(u16, 2),
        4 => of!(u32, 4),
        _ => of!(u64, 8),
    }
}

#[cfg(test)]
mod tests {
    use super::super::number_types::{number_of_type, type_of_number};
    use super::*;

    fn decoded(number: u16, bits: u16, plain: &[u8], count: usize, to: Number) -> Vec<u8> {
        let encoding = Encoding::new(number, bits, Some(ValueRange { min: 1.0, max: 5.0 })).unwrap();
        assert_eq!(encoding.page_size(count as u64), plain.len() as u64);
        let mut whole = vec![0; to.size() * count];
        encoding.numbers(plain, count, 0..count, to, &mut whole).unwrap();
        // Decoding part of a page must give the same values as decoding the whole page.
        for start in 0..count {
            let mut part = vec![0; to.size() * (count - start)];
            encoding.numbers(plain, count, start..count, to, &mut part).unwrap();
            assert_eq!(part, whole[to.size() * start..]);
        }
        whole
    }

    fn split(values: &[&[u8]]) -> Vec<u8> {
        (0..values[0].len()).flat_map(|byte| values.iter().map(move |value| value[byte])).collect()
    }

    #[test]
    fn split_numbers_are_put_together() {
        let plain = split(&[&1.5f32.to_le_bytes(), &(-2.0f32).to_le_bytes(), &0.1f32.to_le_bytes()]);
        let values = decoded(0x18, 32, &plain, 3, Number::F32);
        assert_eq!(values, [1.5f32, -2.0, 0.1].map(f32::to_ne_bytes).concat());
        let values = decoded(0x18, 32, &plain, 3, Number::F64);
        assert_eq!(values, [1.5f64, -2.0, f64::from(0.1f32)].map(f64::to_ne_bytes).concat());
    }

    #[test]
    fn signs_come_back_from_the_lowest_bit() {
        let numbers = [0i64, -1, 1, i64::MAX, i64::MIN, -300];
        let coded: Vec<[u8; 8]> = numbers.iter().map(|x| ((x << 1) ^ (x >> 63)).to_le_bytes()).collect();
        let plain = split(&coded.iter().map(<[u8; 8]>::as_slice).collect::<Vec<_>>());
        assert_eq!(decoded(0x15, 64, &plain, 6, Number::I64), numbers.map(i64::to_ne_bytes).concat());
        let coded: Vec<[u8; 2]> = [1u16, 2, 65535].iter().map(|x| x.to_le_bytes()).collect();
        let plain = split(&coded.iter().map(<[u8; 2]>::as_slice).collect::<Vec<_>>());
        assert_eq!(decoded(0x11, 16, &plain, 3, Number::I16), [-1i16, 1, i16::MIN].map(i16::to_ne_bytes).concat());
    }

    #[test]
    fn bits_are_bools_the_lowest_first() {
        assert_eq!(decoded(0x00, 1, &[0b0000_0101, 0b10], 10, Number::Bool), [1, 0, 1, 0, 0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn truncated_floats_lack_the_end_of_their_mantissa() {
        // The 12 bits are the sign, the exponent and three bits of the mantissa.
        let values = [1.5f32, -2.0, 1.875].map(|value| value.to_bits() >> 20);
        let all = values.iter().enumerate().fold(0u64, |all, (place, value)| all | u64::from(*value) << (12 * place));
        let plain = &all.to_le_bytes()[..5];
        assert_eq!(decoded(0x1c, 12, plain, 3, Number::F32), [1.5f32, -2.0, 1.875].map(f32::to_ne_bytes).concat());
    }

    #[test]
    fn quantized_numbers_are_steps_in_their_range() {
        let all = 7u64 << 3 | 3 << 6;
        let values = decoded(0x1d, 3, &all.to_le_bytes()[..2], 3, Number::F64);
        let expected = [1.0f64, 5.0, 3.0 * (4.0 / 7.0) + 1.0];
        assert_eq!(values, expected.map(f64::to_ne_bytes).concat());
    }

    #[test]
    fn split_indexes_are_sums_within_a_page() {
        let encoding = Encoding::new(0x1b, 64, None).unwrap();
        let plain = split(&[&2u64.to_le_bytes(), &0u64.to_le_bytes(), &300u64.to_le_bytes()]);
        let mut ends = vec![9];
        encoding.indexes(&plain, 3, 1..3, &mut Vec::new(), &mut ends).unwrap();
        assert_eq!(ends, [9, 2, 302]);
    }

    #[test]
    fn variants_have_an_index_and_a_tag() {
        let encoding = Encoding::new(0x10, 96, None).unwrap();
        let mut plain = 5u64.to_le_bytes().to_vec();
        plain.extend(2u32.to_le_bytes());
        let mut switches = Vec::new();
        encoding.switches(&plain, 0..1, &mut switches).unwrap();
        assert_eq!(switches, [Switch { index: 5, tag: 2 }]);
    }

    #[test]
    fn widths_that_no_type_has_are_refused() {
        for (number, bits) in [(0x00, 8), (0x07, 31), (0x1c, 9), (0x1c, 32), (0x1d, 0), (0x1d, 33), (0x1e, 8)] {
            let range = Some(ValueRange { min: 0.0, max: 1.0 });
            assert!(Encoding::new(number, bits, range).is_err(), "{number:#x} with {bits} bits");
        }
        assert!(Encoding::new(0x1d, 8, None).is_err());
    }

    #[test]
    fn columns_that_are_written_are_read_as_the_same_kind() {
        for number in Number::ALL {
            for is_split in [false, true] {
                let encoding = ColumnType::of_numbers(number, is_split).encoding().unwrap();
                assert_eq!(encoding.natural(), Some(number));
                let has_split = number.size() > 1 && number != Number::F16;
                assert_eq!(matches!(encoding.kind, Kind::Split(_)), is_split && has_split, "{number:?}");
            }
            let read_as = if number == Number::F16 { Number::F32 } else { number };
            assert_eq!(number_of_type(type_of_number(number)), Some(read_as));
        }
        for (column, kind) in [
            (ColumnType::CHARACTERS, Kind::Plain(Number::U8)),
            (ColumnType::SWITCHES, Kind::Switch),
            (ColumnType::of_ends(false), Kind::Index(Number::U64)),
            (ColumnType::of_ends(true), Kind::SplitIndex(Number::U64)),
        ] {
            assert_eq!(column.encoding().unwrap().kind, kind);
        }
    }
}
