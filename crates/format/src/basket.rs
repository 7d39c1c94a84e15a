//! TBasket: parsing a record and finding its entries in the decompressed bytes.
//!
//! ```
//! use branchline_format::basket::BasketRecord;
//!
//! assert!(BasketRecord::parse(b"no basket", 1).is_err());
//! ```

pub mod decode;
pub mod embedded;

use crate::compress::{check_declared_size, working_bytes, Codec, Decompressor};
use crate::cursor::Cursor;
use crate::error::{FormatError, Result};
use crate::file::KeySizes;
use crate::layout::{Layout, RunHeader};
use crate::numbers::scalar::Scalar;
use embedded::{read_basket_head, BasketHead, EmbeddedBasket};

/// Memory needed to decompress a basket, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScratchBytes {
    /// Size of the buffer for the decompressed bytes, which is reused for the next basket.
    pub kept: u64,
    /// Working memory of the codec, freed when it returns.
    pub passing: u64,
}

impl ScratchBytes {
    /// Sum of the buffer size and the codec's working memory.
    pub fn sum(self) -> u64 {
        self.kept.saturating_add(self.passing)
    }
}

/// The record of a basket, not yet decompressed.
#[derive(Debug, Clone)]
pub struct BasketRecord<'a> {
    key: KeySizes,
    head: BasketHead,
    stored: &'a [u8],
}

impl<'a> BasketRecord<'a> {
    /// Parse a whole record. Fails if the basket does not have `entries_count` entries, the number that its branch
    /// declares.
    pub fn parse(bytes: &'a [u8], entries_count: u64) -> Result<Self> {
        let basket = Self::of(bytes)?;
        if basket.head.entries_count as u64 != entries_count {
            let message =
                format!("the basket has {} entries, but its branch records {entries_count}", basket.head.entries_count);
            return Err(FormatError::damaged(0, message));
        }
        Ok(basket)
    }

    /// Parse a whole record without checking the number of entries.
    pub fn of(bytes: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes);
        let (key, head) = read_basket_head(&mut cursor)?;
        if key.size != bytes.len() as u64 {
            let message =
                format!("the basket's key records {} bytes, but its branch records {}", key.size, bytes.len());
            return Err(FormatError::damaged(0, message));
        }
        // The key size includes the basket header that was just read (TBasket::Streamer, fKeylen).
        if (key.key_size as usize) < cursor.position() {
            let message = format!("a key of {} bytes ends inside the basket header", key.key_size);
            return Err(FormatError::damaged(0, message));
        }
        let stored = bytes.get(key.key_size as usize..).unwrap_or_default();
        let data_size = head.last.checked_sub(key.key_size as usize);
        if data_size.is_none_or(|size| size as u64 > key.object_size) {
            return Err(FormatError::damaged(0, format!("the data ends at {}, outside the basket", head.last)));
        }
        Ok(Self { key, head, stored })
    }

    /// Number of entries.
    pub fn entries_count(&self) -> usize {
        self.head.entries_count
    }

    /// Size after decompression. Fails if the stored bytes cannot decompress to this size.
    pub fn plain_size(&self) -> Result<usize> {
        self.key.check_plain_size()
    }

    /// Memory needed to decompress the basket. 0 if the basket is not compressed or its sizes are invalid;
    /// [`BasketRecord::decompress`] reports invalid sizes.
    pub fn scratch(&self) -> ScratchBytes {
        match self.plain_size() {
            Ok(size) if self.key.is_compressed() => {
                ScratchBytes { kept: size as u64, passing: working_bytes(self.stored, size) }
            }
            _ => ScratchBytes::default(),
        }
    }

    /// Size of the stored bytes, excluding the key.
    pub fn stored_bytes(&self) -> usize {
        self.stored.len()
    }

    /// Total size of the uncompressed entries, read from the header.
    pub fn data_size(&self) -> usize {
        self.head.last - self.key.key_size as usize
    }

    /// The codec of the first compression record.
    pub fn codec(&self) -> Codec {
        if self.key.is_compressed() {
            Codec::of_record(self.stored).unwrap_or(Codec::None)
        } else {
            Codec::None
        }
    }

    /// Whether the basket stores the offsets of its entries.
    pub fn stores_bounds(&self) -> bool {
        self.key.object_size > self.data_size() as u64 && !self.head.generates_offsets()
    }

    /// Total number of elements in all entries, for a [`Layout::Run`] basket. None for other layouts, and if the header
    /// does not determine the number.
    pub fn run_elements_count(&self, layout: &Layout) -> Option<usize> {
        let Layout::Run { scalar, dimensions, header, .. } = layout else { return None };
        let headers = header.size() * self.head.entries_count;
        let element_size = scalar.stored_size() * dimensions.iter().product::<usize>();
        let bytes = self.data_size().checked_sub(headers)?;
        let offsets_fit = self.key.object_size - self.data_size() as u64 > 4 * self.head.entries_count as u64;
        (self.stores_bounds() && offsets_fit && element_size > 0 && bytes.is_multiple_of(element_size))
            .then(|| bytes / element_size)
    }

    /// Reject a declared size that the stored bytes cannot decompress to. Call this before allocating that much memory.
    pub fn check_declared_size(&self) -> Result<()> {
        let size = self.plain_size()?;
        if !self.key.is_compressed() {
            return if size <= self.stored.len() { Ok(()) } else { Err(cut_short()) };
        }
        check_declared_size(self.stored, size).map_err(|error| FormatError::not_decompressed(0, error))
    }

    /// Whether all entries have `entry_size` bytes, according to the header.
    pub fn has_entries_of(&self, entry_size: usize) -> bool {
        entry_size.checked_mul(self.head.entries_count) == Some(self.data_size())
    }

    /// Decompress into `room`, overwriting its contents, and return the uncompressed bytes of the basket. Fails if the
    /// record is damaged.
    pub fn decompress<'p>(&self, decompressor: &mut Decompressor, room: &'p mut Vec<u8>) -> Result<&'p [u8]>
    where
        'a: 'p,
    {
        let size = self.plain_size()?;
        if !self.key.is_compressed() {
            return self.stored.get(..size).ok_or_else(cut_short);
        }
        if room.len() < size {
            self.check_declared_size()?;
            room.reserve_exact(size - room.len());
            room.resize(size, 0);
        }
        let plain = &mut room[..size];
        decompressor.decompress_into(self.stored, plain).map_err(|error| FormatError::not_decompressed(0, error))?;
        Ok(plain)
    }

    /// Split the uncompressed bytes of the basket into entry data and entry offsets.
    pub fn plain<'p>(&self, bytes: &'p [u8]) -> Plain<'p> {
        let (data, rest) = bytes.split_at(self.data_size().min(bytes.len()));
        Plain {
            data,
            offsets: Offsets::Stored {
                rest,
                key_size: self.key.key_size as usize,
                are_sizes: self.head.stores_sizes(),
            },
            key_size: self.key.key_size,
            entries_count: self.head.entries_count,
            generates_offsets: self.head.generates_offsets(),
        }
    }
}

fn cut_short() -> FormatError {
    FormatError::damaged(0, "the basket is truncated")
}

/// The uncompressed data of a basket and the positions of its entries.
#[derive(Debug, Clone, Copy)]
pub struct Plain<'a> {
    /// Bytes of all entries.
    pub data: &'a [u8],
    offsets: Offsets<'a>,
    /// Size of the basket's key. References between objects are relative to the start of the key.
    pub key_size: u64,
    /// Number of entries.
    pub entries_count: usize,
    generates_offsets: bool,
}

#[derive(Debug, Clone, Copy)]
enum Offsets<'a> {
    /// Offsets of a basket with its own record: a count, followed by offsets from the start of the key or by entry
    /// sizes. `rest` is empty if the basket stores neither.
    Stored { rest: &'a [u8], key_size: usize, are_sizes: bool },
    /// Offsets of an embedded basket, relative to the start of the data.
    Embedded(Option<&'a [u32]>),
}

impl<'a> Plain<'a> {
    /// Create a view of a basket that is embedded in its tree.
    pub fn embedded(basket: &'a EmbeddedBasket) -> Self {
        Self {
            data: &basket.data,
            offsets: Offsets::Embedded(basket.offsets.as_deref()),
            key_size: basket.key_size,
            entries_count: basket.entries_count,
            generates_offsets: false,
        }
    }

    /// Start of each entry in the data, followed by the end of the last entry; None if the basket does not store
    /// offsets. Fails if an entry ends before it starts.
    pub fn bounds(&self) -> Result<Option<Vec<u32>>> {
        let mut bounds = match self.offsets {
            Offsets::Embedded(bounds) => match bounds {
                Some(bounds) => bounds.to_vec(),
                None => return Ok(None),
            },
            Offsets::Stored { rest, .. } if rest.is_empty() || self.generates_offsets => return Ok(None),
            Offsets::Stored { rest, key_size, are_sizes } => {
                stored_bounds(rest, key_size, are_sizes, self.entries_count)?
            }
        };
        bounds.truncate(self.entries_count);
        bounds.push(self.data.len() as u32);
        match bounds.windows(2).position(|pair| pair[0] > pair[1]) {
            Some(entry) => Err(FormatError::damaged(
                u64::from(bounds[entry]),
                format!("entry {entry} of the basket ends before it starts"),
            )),
            None => Ok(Some(bounds)),
        }
    }

    /// Whether the basket stores the original positions of its entries (TBasket::fDisplacement).
    pub fn has_displacements(&self) -> bool {
        match self.offsets {
            Offsets::Stored { rest, .. } => rest.len() > 4 * (self.entries_count + 2) && !self.generates_offsets,
            Offsets::Embedded(_) => false,
        }
    }

    /// Original positions of the entries, relative to the start of the key; None if the basket does not store them.
    pub fn displacements(&self) -> Result<Option<Vec<u32>>> {
        let Offsets::Stored { rest, .. } = self.offsets else { return Ok(None) };
        if !self.has_displacements() {
            return Ok(None);
        }
        let mut cursor = Cursor::new(rest);
        let count = i64::from(cursor.i32()?);
        let count = cursor.checked_count(count, 4)?;
        cursor.skip(4 * count)?;
        let count = i64::from(cursor.i32()?);
        let count = cursor.checked_count(count, 4)?;
        if count < self.entries_count {
            let message = format!("{count} displacements for {} entries", self.entries_count);
            return Err(FormatError::damaged(0, message));
        }
        (0..self.entries_count).map(|_| cursor.u32()).collect::<Result<_>>().map(Some)
    }

    /// Size of each entry of a basket without entry offsets. Fails unless all entries have the same size.
    pub fn fixed_size(&self) -> Result<usize> {
        if self.generates_offsets {
            return Err(FormatError::unsupported(
                "the entry offsets of its baskets must be computed from a counter branch",
            ));
        }
        let size = self.data.len().checked_div(self.entries_count).unwrap_or(0);
        self.fixed_range(size, 0..self.entries_count).map(|_| size)
    }

    /// The bytes of a range of entries, in a basket whose entries all have `entry_size` bytes.
    pub fn fixed_range(&self, entry_size: usize, entries: std::ops::Range<usize>) -> Result<&'a [u8]> {
        if entry_size.checked_mul(self.entries_count) != Some(self.data.len()) {
            if self.data.is_empty() {
                // The branch is probably a fixed-size array of an enumeration, which ROOT does not store. Files do not
                // always show that a branch is such an array.
                let what = "its entries are empty; ROOT does not store fixed arrays of this enumeration";
                return Err(FormatError::unsupported(what));
            }
            let message = format!(
                "{} entries of {entry_size} bytes do not match the {} bytes of the basket",
                self.entries_count,
                self.data.len()
            );
            return Err(FormatError::damaged(0, message));
        }
        Ok(&self.data[entry_size * entries.start..entry_size * entries.end])
    }
}

/// Value that uproot 3 writes in place of the number of entry offsets.
const UPROOT3_COUNT: usize = 3;

fn stored_bounds(rest: &[u8], key_size: usize, are_sizes: bool, entries_count: usize) -> Result<Vec<u32>> {
    let mut cursor = Cursor::new(rest);
    let count = i64::from(cursor.i32()?);
    let count = cursor.checked_count(count, 4)?;
    // uproot 3 writes this constant in place of the number of offsets, followed by all offsets and a 0. ROOT takes the
    // constant for the number of offsets and reads the remaining offsets from uninitialised memory.
    let is_of_uproot3 = count == UPROOT3_COUNT && rest.len() == 4 * (entries_count + 2);
    if count < entries_count && !is_of_uproot3 {
        return Err(FormatError::damaged(0, format!("{count} entry offsets for {entries_count} entries")));
    }
    let raw = cursor.take(4 * entries_count)?.as_chunks::<4>().0;
    let numbers = raw.iter().map(|raw| i64::from(i32::from_be_bytes(*raw)));
    // An offset before the data becomes u32::MAX, which the caller rejects because the offsets are then not sorted.
    let in_data = |offset: i64| u32::try_from(offset).unwrap_or(u32::MAX);
    let mut bounds = Vec::with_capacity(entries_count + 1);
    if are_sizes {
        // The first value is unused; each later value is the size of the previous entry.
        let sums = numbers.enumerate().scan(0, |sum, (index, size)| {
            *sum += if index == 0 { 0 } else { size };
            Some(*sum)
        });
        bounds.extend(sums.map(in_data));
    } else {
        bounds.extend(numbers.map(|offset| in_data(offset - key_size as i64)));
    }
    Ok(bounds)
}

/// The bytes of the values in one entry of a [`Layout::Run`] basket. Fails if the header does not match the entry size.
pub fn run_values(entry: &[u8], header: RunHeader, element_size: usize) -> Result<&[u8]> {
    let wrong = |what: String| Err(FormatError::damaged(0, what));
    let Some(values) = entry.get(header.size()..) else {
        return wrong(format!("an entry of {} bytes is shorter than its header", entry.len()));
    };
    if element_size == 0 || !values.len().is_multiple_of(element_size) {
        return wrong(format!("{} bytes are not a multiple of the element size of {element_size} bytes", values.len()));
    }
    let count = match header {
        RunHeader::None | RunHeader::Pointer => return Ok(values),
        RunHeader::Count => Cursor::new(entry).u32()?,
        RunHeader::Container { .. } => Cursor::at(entry, 6).u32()?,
    };
    if count as usize * element_size != values.len() {
        return wrong(format!("a container with {count} elements has {} bytes", values.len()));
    }
    Ok(values)
}

/// Decode all entries of a basket with [`Layout::Run`]. `offsets` receives the end of each entry, counted in elements
/// starting from `first_element`. `values` receives the values and must have exactly their total size.
pub fn decode_run_into(
    plain: &Plain<'_>,
    scalar: Scalar,
    element_length: usize,
    header: RunHeader,
    first_element: i64,
    offsets: &mut [i64],
    values: &mut [u8],
) -> Result<()> {
    let bounds = plain.bounds()?.ok_or_else(|| FormatError::damaged(0, "the basket has no entry offsets"))?;
    let element_size = scalar.stored_size() * element_length;
    let mut end = first_element;
    let mut written = 0;
    if header == RunHeader::None && bounds.first() == Some(&0) {
        for (offset, pair) in offsets.iter_mut().zip(bounds.windows(2)) {
            let bytes = (pair[1] - pair[0]) as usize;
            if !bytes.is_multiple_of(element_size) {
                return Err(FormatError::damaged(u64::from(pair[0]), "an entry ends inside a value"));
            }
            end += (bytes / element_size) as i64;
            *offset = end;
        }
        scalar.decode(plain.data, values);
        return Ok(());
    }
    for (offset, pair) in offsets.iter_mut().zip(bounds.windows(2)) {
        let stored = run_values(&plain.data[pair[0] as usize..pair[1] as usize], header, element_size)?;
        let size = stored.len() / scalar.stored_size() * scalar.size();
        let Some(room) = values.get_mut(written..written + size) else {
            return Err(FormatError::damaged(u64::from(pair[0]), "the basket has more values than expected"));
        };
        scalar.decode(stored, room);
        written += size;
        end += (stored.len() / element_size) as i64;
        *offset = end;
    }
    if written != values.len() {
        return Err(FormatError::damaged(0, "the basket has fewer values than expected"));
    }
    Ok(())
}
