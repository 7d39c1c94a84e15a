//! Baskets embedded in the metadata of their branch (TBasket::Streamer), and the header of every basket.
//!
//! ```
//! use branchline_format::basket::embedded::read_basket_head;
//! use branchline_format::cursor::Cursor;
//!
//! // Size and version of the key, size of the object, date, size of the key, cycle, offsets of record and directory.
//! let key = [0, 0, 0, 103, 0, 4, 0, 0, 0, 40, 0, 0, 0, 0, 0, 63, 0, 1, 0, 0, 0, 100, 0, 0, 0, 0];
//! // Class, name and title; then version, buffer size, entry size, number of entries, end of the data and flag.
//! let head = [0, 0, 0, 0, 3, 0, 0, 0, 99, 0, 0, 0, 4, 0, 0, 0, 10, 0, 0, 0, 103, 0];
//! let bytes = [key.as_slice(), &head].concat();
//! let (key, head) = read_basket_head(&mut Cursor::new(&bytes))?;
//! assert_eq!((key.seek, head.entries_count, head.last), (100, 10, 103));
//! # Ok::<(), branchline_format::error::FormatError>(())
//! ```

use std::sync::Arc;

use crate::compress::Setting;
use crate::cursor::Cursor;
use crate::error::{FormatError, Result};
use crate::file::{parse_detached_key, parse_key_sizes, shorter_than_key, KeySizes};

/// The header that TBasket::Streamer writes after the TKey.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BasketHead {
    /// Number of entries.
    pub entries_count: usize,
    /// Offset of the end of the data from the start of the key; entry offsets may follow the data.
    pub last: usize,
    /// Size of the buffer in which the basket was filled (TBasket::fBufferSize).
    pub buffer_size: i32,
    /// Size of each entry, or capacity of the entry offset table (TBasket::fNevBufSize).
    pub entry_size: i32,
    /// Bit mask of the basket's I/O features (TBasket::fIOBits).
    pub io_bits: u8,
    /// Code for the parts that an embedded basket stores; 80 is added if entry offsets are generated from counts.
    pub flag: u8,
}

/// I/O feature bit: entry offsets are not stored if they can be generated from counts (kGenerateOffsetMap).
const GENERATE_OFFSET_MAP: u8 = 1;
/// Value added to the basket's flag if entry offsets are not stored.
const GENERATE_OFFSETS: u8 = 80;
/// Basket flags above this value mean that displacements follow the entry offsets.
const HAS_DISPLACEMENT: u8 = 40;

impl BasketHead {
    /// Whether references inside the entries may be relative to the original positions of the entries
    /// (TBasket::fDisplacement).
    pub fn has_displacement(&self) -> bool {
        self.flag % GENERATE_OFFSETS > HAS_DISPLACEMENT
    }

    /// Whether the basket stores the entry sizes, which compress better than offsets. ROOT stores sizes if the offsets
    /// should be omitted but cannot be generated from counts.
    pub fn stores_sizes(&self) -> bool {
        self.io_bits & GENERATE_OFFSET_MAP != 0 && !self.generates_offsets()
    }

    /// Whether the entry offsets are omitted and must be generated from counts (TIOFeatures' kGenerateOffsetMap).
    pub fn generates_offsets(&self) -> bool {
        self.flag > GENERATE_OFFSETS
    }
}

/// A basket embedded in the tree's metadata, with its uncompressed data and entry offsets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EmbeddedBasket {
    /// The basket header.
    pub head: BasketHead,
    /// Cycle number of the key.
    pub cycle: i16,
    /// Creation time, packed as in TDatime.
    pub date: u32,
    /// Whether the data is embedded as well. If not, the basket also has a record in the file.
    pub has_data: bool,
    /// Size of the key. References between objects are relative to the start of the key.
    pub key_size: u64,
    /// Number of entries.
    pub entries_count: usize,
    /// Bytes of all entries, without the key.
    pub data: Arc<Vec<u8>>,
    /// Start of each entry in the data, followed by the end of the last entry. None if all entries have the same size
    /// or the offsets are generated from counts.
    pub offsets: Option<Vec<u32>>,
    /// Compression setting for writing a basket that Branchline created for entries that no file stores. None if the
    /// basket was read from a file.
    pub made_with: Option<Setting>,
}

/// Parse the numeric fields of a basket's key, then the basket header. The key size includes the basket header.
pub fn read_basket_head(cursor: &mut Cursor<'_>) -> Result<(KeySizes, BasketHead)> {
    let key = parse_key_sizes(cursor)?;
    for _name in 0..3 {
        cursor.string_bytes()?;
    }
    let head = read_head(cursor)?;
    if key.size < key.key_size {
        return Err(shorter_than_key(0, key.size));
    }
    Ok((key, head))
}

fn read_head(cursor: &mut Cursor<'_>) -> Result<BasketHead> {
    let start = cursor.position() as u64;
    let _version = cursor.version_header()?;
    let buffer_size = cursor.i32()?;
    let entry_size = cursor.i32()?;
    // A negative entry size means that the I/O feature bits follow.
    let io_bits = if entry_size < 0 { cursor.u8()? } else { 0 };
    let entries_count = cursor.i32()?;
    let last = cursor.i32()?;
    let flag = cursor.u8()?;
    match (usize::try_from(entries_count), usize::try_from(last)) {
        (Ok(entries_count), Ok(last)) => {
            Ok(BasketHead { entries_count, last, buffer_size, entry_size: entry_size.saturating_abs(), io_bits, flag })
        }
        _ => Err(FormatError::damaged(
            start,
            format!("the basket has an invalid number of entries or bytes ({entries_count} entries, {last} bytes)"),
        )),
    }
}

/// Parse a TBasket embedded in the record of its tree (TBasket::Streamer).
pub fn read_embedded(cursor: &mut Cursor<'_>) -> Result<EmbeddedBasket> {
    let key = parse_detached_key(cursor)?;
    let head = read_head(cursor)?;
    let key_size = key.key_size as usize;
    let mut flag = head.flag;
    let generated = head.generates_offsets();
    if generated {
        flag -= GENERATE_OFFSETS;
    }
    let mut offsets = None;
    if !generated && flag != 0 && flag % 10 != 2 {
        if head.entries_count > 0 {
            offsets = Some(read_offsets(cursor, key_size, &head)?);
        }
        if flag > HAS_DISPLACEMENT {
            let count = i64::from(cursor.i32()?);
            let count = cursor.checked_count(count, 4)?;
            cursor.skip(4 * count)?;
        }
    }
    let mut data = Vec::new();
    let has_data = flag == 1 || flag > 10;
    if has_data {
        let whole = cursor.take(head.last)?;
        data = whole.get(key_size..).unwrap_or_default().to_vec();
    }
    let (key_size, entries_count, data) = (key.key_size, head.entries_count, Arc::new(data));
    let (cycle, date, made_with) = (key.cycle, key.date, None);
    Ok(EmbeddedBasket { head, cycle, date, has_data, key_size, entries_count, data, offsets, made_with })
}

fn read_offsets(cursor: &mut Cursor<'_>, key_size: usize, head: &BasketHead) -> Result<Vec<u32>> {
    /// Bits that some old baskets set in their entry offsets, and that must be cleared (TBufferFile's
    /// kDisplacementMask).
    const DISPLACEMENT_MASK: i32 = 0x7f00_0000 | i32::MIN;
    let at = cursor.position() as u64;
    let count = i64::from(cursor.i32()?);
    let count = cursor.checked_count(count, 4)?;
    let masked = head.flag > 20 && head.flag < HAS_DISPLACEMENT;
    let mut offsets = Vec::with_capacity(count + 1);
    for _ in 0..count {
        let raw = cursor.i32()?;
        let offset = if masked { raw & !DISPLACEMENT_MASK } else { raw };
        let from_data = i64::from(offset) - key_size as i64;
        // An offset before the data becomes u32::MAX, which is rejected later because the offsets are then not sorted.
        offsets.push(u32::try_from(from_data).unwrap_or(u32::MAX));
    }
    if offsets.len() < head.entries_count {
        return Err(FormatError::damaged(at, "the basket has fewer entry offsets than entries"));
    }
    offsets.truncate(head.entries_count);
    offsets.push(head.last.saturating_sub(key_size) as u32);
    Ok(offsets)
}
