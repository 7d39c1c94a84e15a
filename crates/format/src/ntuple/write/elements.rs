//! Column elements in native representation, for decoding pages and encoding new pages.
//!
//! Collection ends are 64-bit integers. Variants are a 64-bit index and a 32-bit tag. Truncated values are floats.
//! Quantized values are their integer step, so moving them between pages is lossless.
//!
//! ```
//! use branchline_format::ntuple::number_types::ColumnType;
//! use branchline_format::ntuple::write::elements::{decode, encode};
//! use branchline_format::numbers::number::Number;
//!
//! let encoding = ColumnType::of_numbers(Number::I16, true).encoding().unwrap();
//! let elements: Vec<u8> = [3i16, -1, 500].into_iter().flat_map(i16::to_ne_bytes).collect();
//! let page = encode(&encoding, &elements)?;
//! let mut decoded = Vec::new();
//! decode(&encoding, &page, 3, 0..3, &mut decoded)?;
//! assert_eq!(decoded, elements);
//! # Ok::<(), branchline_format::error::FormatError>(())
//! ```

use std::ops::Range;

use pulp::Arch;

use crate::error::{FormatError, Result};

use super::super::encoding::{packed, Encoding, Kind, Switch};
use crate::numbers::number::Number;

/// Size of a native element in bytes.
pub fn element_size(encoding: &Encoding) -> usize {
    match encoding.kind {
        Kind::Bit => 1,
        Kind::Plain(number) | Kind::Split(number) => number.size(),
        Kind::Index(_) | Kind::SplitIndex(_) => 8,
        Kind::Switch => 12,
        Kind::Truncated | Kind::Quantized { .. } => 4,
    }
}

/// Decode the `wanted` elements of a page of `count` elements and append them to `out`.
pub fn decode(encoding: &Encoding, plain: &[u8], count: usize, wanted: Range<usize>, out: &mut Vec<u8>) -> Result<()> {
    let filled = out.len();
    match encoding.kind {
        Kind::Index(_) | Kind::SplitIndex(_) => {
            let mut ends = Vec::with_capacity(wanted.len());
            encoding.indexes(plain, count, wanted, &mut Vec::new(), &mut ends)?;
            ends.iter().for_each(|end| out.extend_from_slice(&end.to_ne_bytes()));
        }
        Kind::Switch => {
            let mut switches = Vec::with_capacity(wanted.len());
            encoding.switches(plain, wanted, &mut switches)?;
            push_switches(&switches, out);
        }
        Kind::Quantized { .. } => {
            wanted.for_each(|index| out.extend_from_slice(&packed(plain, index, encoding.bits).to_ne_bytes()));
        }
        Kind::Truncated => {
            out.resize(filled + 4 * wanted.len(), 0);
            encoding.numbers(plain, count, wanted, Number::F32, &mut out[filled..])?;
        }
        Kind::Bit => {
            out.resize(filled + wanted.len(), 0);
            encoding.numbers(plain, count, wanted, Number::Bool, &mut out[filled..])?;
        }
        Kind::Plain(number) | Kind::Split(number) => {
            out.resize(filled + number.size() * wanted.len(), 0);
            encoding.numbers(plain, count, wanted, number, &mut out[filled..])?;
        }
    }
    Ok(())
}

/// Append variants to `out` as native elements.
pub fn push_switches(switches: &[Switch], out: &mut Vec<u8>) {
    for Switch { index, tag } in switches {
        out.extend_from_slice(&index.to_ne_bytes());
        out.extend_from_slice(&tag.to_ne_bytes());
    }
}

/// Iterate over the variants in elements that [`decode`] returned.
pub fn switches(elements: &[u8]) -> impl Iterator<Item = Switch> + '_ {
    elements.as_chunks::<12>().0.iter().map(|raw| {
        let [i0, i1, i2, i3, i4, i5, i6, i7, tag @ ..] = *raw;
        let index = u64::from_ne_bytes([i0, i1, i2, i3, i4, i5, i6, i7]);
        Switch { index, tag: u32::from_ne_bytes(tag) }
    })
}

/// Whether an uncompressed page contains the native elements without further encoding.
pub fn is_native(encoding: &Encoding) -> bool {
    match encoding.kind {
        Kind::Plain(number) => cfg!(target_endian = "little") || number.size() == 1,
        Kind::Index(number) => cfg!(target_endian = "little") && number.size() == 8,
        _ => false,
    }
}

/// Encode native elements into the uncompressed bytes of a page.
pub fn encode(encoding: &Encoding, elements: &[u8]) -> Result<Vec<u8>> {
    let mut plain = Vec::new();
    encode_into(encoding, elements, &mut plain)?;
    Ok(plain)
}

/// Like [`encode`], but overwrites a reused buffer.
pub fn encode_into(encoding: &Encoding, elements: &[u8], plain: &mut Vec<u8>) -> Result<()> {
    match encoding.kind {
        Kind::Bit => *plain = pack(elements.iter().map(|bit| u32::from(*bit != 0)), elements.len(), 1),
        Kind::Plain(number) => little_endian(number.size(), elements, plain),
        Kind::Split(number) => split(number, elements, plain),
        Kind::Index(number) => match number.size() {
            4 => store(checked_ends(elements)?.map(|end| (end as u32).to_le_bytes()), plain),
            _ => store(ends(elements).map(u64::to_le_bytes), plain),
        },
        Kind::SplitIndex(number) => match number.size() {
            4 => split_words(differences(checked_ends(elements)?).map(|more| more as u32), plain),
            _ => split_words(differences(ends(elements)), plain),
        },
        Kind::Switch => {
            let of = |Switch { index, tag }: Switch| index.to_le_bytes().into_iter().chain(tag.to_le_bytes());
            plain.clear();
            plain.extend(switches(elements).flat_map(of));
        }
        Kind::Truncated => {
            let values = elements.as_chunks::<4>().0;
            let bits = values.iter().map(|raw| u32::from_ne_bytes(*raw) >> (32 - encoding.bits));
            *plain = pack(bits, values.len(), encoding.bits);
        }
        Kind::Quantized { .. } => {
            let values = elements.as_chunks::<4>().0;
            *plain = pack(values.iter().map(|raw| u32::from_ne_bytes(*raw)), values.len(), encoding.bits);
        }
    }
    Ok(())
}

/// Convert a page of `count` elements to another encoding. Fails unless that encoding can represent all values.
pub fn reencoded(from: &Encoding, plain: &[u8], count: usize, to: &Encoding) -> Result<Vec<u8>> {
    let mut elements = Vec::new();
    match (from.kind, to.natural()) {
        (Kind::Quantized { .. } | Kind::Truncated, Some(number)) if from.kind != to.kind => {
            elements.resize(count * number.size(), 0);
            from.numbers(plain, count, 0..count, number, &mut elements)?;
        }
        _ => decode(from, plain, count, 0..count, &mut elements)?,
    }
    encode(to, &elements)
}

fn little_endian(size: usize, elements: &[u8], bytes: &mut Vec<u8>) {
    bytes.clear();
    bytes.extend_from_slice(elements);
    if cfg!(target_endian = "big") {
        bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
}

/// Iterate over native collection ends.
fn ends(elements: &[u8]) -> impl ExactSizeIterator<Item = u64> + '_ {
    elements.as_chunks::<8>().0.iter().map(|raw| u64::from_ne_bytes(*raw))
}

/// Iterate over native collection ends. Fails unless all ends fit into 32 bits.
fn checked_ends(elements: &[u8]) -> Result<impl ExactSizeIterator<Item = u64> + '_> {
    match ends(elements).max().filter(|end| *end > u64::from(u32::MAX)) {
        Some(end) => {
            let message = format!("a cluster has collections with {end} elements, which exceeds 32 bits");
            Err(FormatError::unsupported(message))
        }
        None => Ok(ends(elements)),
    }
}

fn differences(ends: impl ExactSizeIterator<Item = u64>) -> impl ExactSizeIterator<Item = u64> {
    let mut before = 0;
    ends.map(move |end| end.wrapping_sub(std::mem::replace(&mut before, end)))
}

fn store<const SIZE: usize>(values: impl ExactSizeIterator<Item = [u8; SIZE]>, bytes: &mut Vec<u8>) {
    bytes.resize(SIZE * values.len(), 0);
    bytes.as_chunks_mut::<SIZE>().0.iter_mut().zip(values).for_each(|(place, value)| *place = value);
}

fn pack(values: impl Iterator<Item = u32>, count: usize, bits: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity((count * bits).div_ceil(8));
    let (mut waiting, mut waiting_bits) = (0u64, 0);
    for value in values {
        waiting |= u64::from(value) << waiting_bits;
        waiting_bits += bits;
        while waiting_bits >= 8 {
            bytes.push(waiting as u8);
            waiting >>= 8;
            waiting_bits -= 8;
        }
    }
    if waiting_bits > 0 {
        bytes.push(waiting as u8);
    }
    bytes
}

/// Number of elements to split at once, chosen to fit into the L1 cache.
const SPLIT_AT_ONCE: usize = 1024;

/// An integer whose bytes can be split.
trait Word: Copy + Default {
    /// The byte at index `weight`; index 0 is the least significant byte.
    fn byte(self, weight: usize) -> u8;
}

macro_rules! word {
    ($($kind:ty),*) => {
        $(impl Word for $kind {
            fn byte(self, weight: usize) -> u8 {
                (self >> (8 * weight)) as u8
            }
        })*
    };
}
word!(u16, u32, u64);

/// Write the lowest byte of every word, then the second byte of every word, and so on. Overwrites `bytes`.
fn split_words<W: Word>(mut words: impl ExactSizeIterator<Item = W>, bytes: &mut Vec<u8>) {
    let count = words.len();
    bytes.resize(count * size_of::<W>(), 0);
    let mut block = [W::default(); SPLIT_AT_ONCE];
    Arch::new().dispatch(|| {
        for start in (0..count).step_by(SPLIT_AT_ONCE) {
            let block = &mut block[..SPLIT_AT_ONCE.min(count - start)];
            block.iter_mut().zip(&mut words).for_each(|(place, word)| *place = word);
            for (weight, plane) in bytes.chunks_exact_mut(count).enumerate() {
                let places = &mut plane[start..start + block.len()];
                places.iter_mut().zip(&*block).for_each(|(place, word)| *place = word.byte(weight));
            }
        }
    });
}

/// Byte-split numbers. Signed integers are zigzag-encoded first.
fn split(number: Number, elements: &[u8], bytes: &mut Vec<u8>) {
    macro_rules! of {
        ($word:ty, $signed:ty) => {{
            const SIZE: usize = size_of::<$word>();
            let words = elements.as_chunks::<SIZE>().0.iter().map(|raw| <$word>::from_ne_bytes(*raw));
            if number.is_signed() {
                let zigzag = |word: $word| (word << 1) ^ ((word as $signed) >> (8 * SIZE - 1)) as $word;
                split_words(words.map(zigzag), bytes);
            } else {
                split_words(words, bytes);
            }
        }};
    }
    match number.size() {
        2 => of!(u16, i16),
        4 => of!(u32, i32),
        8 => of!(u64, i64),
        _ => little_endian(number.size(), elements, bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::number_types::ValueRange;
    use super::*;

    /// Pseudo-random bytes.
    fn noise(size: usize) -> Vec<u8> {
        (0..size as u64).map(|index| (index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
    }

    fn check(encoding: &Encoding, elements: &[u8], count: usize) {
        let plain = encode(encoding, elements).unwrap();
        assert_eq!(plain.len() as u64, encoding.page_size(count as u64), "{encoding:?}");
        for start in [0, 1, count / 2, count] {
            let mut back = Vec::new();
            decode(encoding, &plain, count, start..count, &mut back).unwrap();
            assert_eq!(back, elements[element_size(encoding) * start..], "{encoding:?} from {start}");
        }
    }

    #[test]
    fn numbers_come_back_from_pages_of_any_encoding() {
        let bits_of = |number: u16| match number {
            0x01..=0x04 => 8,
            0x05 | 0x06 | 0x0b | 0x11 | 0x12 | 0x17 => 16,
            0x07 | 0x08 | 0x0c | 0x13 | 0x14 | 0x18 => 32,
            _ => 64,
        };
        for number in (0x01..=0x0d).chain(0x11..=0x19) {
            let encoding = Encoding::new(number, bits_of(number), None).unwrap();
            check(&encoding, &noise(57 * element_size(&encoding)), 57);
        }
        check(&Encoding::new(0, 1, None).unwrap(), &noise(57).iter().map(|byte| byte & 1).collect::<Vec<u8>>(), 57);
        check(&Encoding::new(0x10, 96, None).unwrap(), &noise(12 * 57), 57);
    }

    #[test]
    fn packed_numbers_keep_their_bits() {
        for bits in 10..=31u16 {
            let cut = |raw: &[u8; 4]| (u32::from_ne_bytes(*raw) & !(u32::MAX >> bits)).to_ne_bytes();
            let elements: Vec<u8> = noise(4 * 57).as_chunks::<4>().0.iter().flat_map(cut).collect();
            check(&Encoding::new(0x1c, bits, None).unwrap(), &elements, 57);
        }
        for bits in 1..=32u16 {
            let cut = |raw: &[u8; 4]| (u32::from_ne_bytes(*raw) & (u32::MAX >> (32 - bits))).to_ne_bytes();
            let elements: Vec<u8> = noise(4 * 57).as_chunks::<4>().0.iter().flat_map(cut).collect();
            let range = Some(ValueRange { min: 0.0, max: 1.0 });
            check(&Encoding::new(0x1d, bits, range).unwrap(), &elements, 57);
        }
    }

    #[test]
    fn ends_of_collections_must_fit() {
        let elements: Vec<u8> = (0..57u64).flat_map(|index| (index * index * 1000).to_ne_bytes()).collect();
        for (number, bits) in [(0x0e, 32), (0x0f, 64), (0x1a, 32), (0x1b, 64)] {
            check(&Encoding::new(number, bits, None).unwrap(), &elements, 57);
        }
        let large = (1u64 << 32).to_ne_bytes();
        assert!(encode(&Encoding::new(0x1a, 32, None).unwrap(), &large).is_err());
        check(&Encoding::new(0x1b, 64, None).unwrap(), &large, 1);
    }
}
