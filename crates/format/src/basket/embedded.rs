//! Baskets that were written inside their branch (TBasket::Streamer), and the head of every basket's record.

use std::sync::Arc;

use crate::compress::Setting;
use crate::cursor::Cursor;
use crate::error::{FormatError, Result};
use crate::file::{parse_detached_key, parse_key_sizes, shorter_than_key, KeySizes};

/// What TBasket::Streamer writes behind the TKey.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BasketHead {
    /// Entries in the basket.
    pub entries_count: usize,
    /// Where the data end, from the start of the key; entry offsets may follow.
    pub last: usize,
    /// Bytes of the buffer in which it was filled (TBasket::fBufferSize).
    pub buffer_size: i32,
    /// Bytes of an entry, or length of the table of entry offsets (TBasket::fNevBufSize).
    pub entry_size: i32,
    /// TBasket's IO features.
    pub io_bits: u8,
    /// What follows in an embedded basket; 80 is added where entry offsets are generated from counts.
    pub flag: u8,
}

/// IO feature: entry offsets that can be generated are not stored (TBasket's kGenerateOffsetMap).
const GENERATE_OFFSET_MAP: u8 = 1;
/// Added to a basket's flag when its entry offsets are not stored.
const GENERATE_OFFSETS: u8 = 80;
/// Flags above this have displacements behind the entry offsets.
const HAS_DISPLACEMENT: u8 = 40;

impl BasketHead {
    /// Whether entries may refer to others by where these were when they were filled (TBasket::fDisplacement).
    pub fn has_displacement(&self) -> bool {
        self.flag % GENERATE_OFFSETS > HAS_DISPLACEMENT
    }

    /// Whether the stored entry offsets are sizes of entries, which compress better. ROOT stores these where offsets
    /// should be left out but cannot be generated.
    pub fn stores_sizes(&self) -> bool {
        self.io_bits & GENERATE_OFFSET_MAP != 0 && !self.generates_offsets()
    }

    /// Whether the entry offsets are left out and follow from the counts (TIOFeatures' kGenerateOffsetMap).
    pub fn generates_offsets(&self) -> bool {
        self.flag > GENERATE_OFFSETS
    }
}

/// A basket that came with the tree's metadata: its plain data and entry offsets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EmbeddedBasket {
    /// Its head.
    pub head: BasketHead,
    /// Version number of its key.
    pub cycle: i16,
    /// When it was made, as TDatime packs it.
    pub date: u32,
    /// Whether its data came along; without them the basket lies in the file, too.
    pub has_data: bool,
    /// Bytes of its key, which references between objects count too.
    pub key_size: u64,
    /// Entries in it.
    pub entries_count: usize,
    /// Bytes of the entries, without a key in front.
    pub data: Arc<Vec<u8>>,
    /// Start of each entry in the data, and the end of the last; None if all entries have one size or if offsets are
    /// generated from counts.
    pub offsets: Option<Vec<u32>>,
    /// Compression of its record, if the basket was made here for entries that no file has; None if it came with its
    /// tree.
    pub made_with: Option<Setting>,
}

/// Reads the sizes of the key and the head of a basket's record; the key's size covers both.
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
    // A negative size announces IO features.
    let io_bits = if entry_size < 0 { cursor.u8()? } else { 0 };
    let entries_count = cursor.i32()?;
    let last = cursor.i32()?;
    let flag = cursor.u8()?;
    match (usize::try_from(entries_count), usize::try_from(last)) {
        (Ok(entries_count), Ok(last)) => {
            Ok(BasketHead { entries_count, last, buffer_size, entry_size: entry_size.saturating_abs(), io_bits, flag })
        }
        _ => Err(FormatError::damaged(start, format!("a basket cannot have {entries_count} entries and {last} bytes"))),
    }
}

/// Reads a TBasket in the record of its tree (TBasket::Streamer).
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
    /// Offsets of some old baskets carry this mark (TBufferFile's kDisplacementMask).
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
        // An offset before the data fails the test of order.
        offsets.push(u32::try_from(from_data).unwrap_or(u32::MAX));
    }
    if offsets.len() < head.entries_count {
        return Err(FormatError::damaged(at, "fewer entry offsets than entries"));
    }
    offsets.truncate(head.entries_count);
    offsets.push(head.last.saturating_sub(key_size) as u32);
    Ok(offsets)
}
