//! The entry bounds of a basket without entry offsets, derived from the layout and from the branch that counts the
//! elements (TBranch::GenerateOffsetArray).

use std::ops::Range;

use crate::basket::decode::Counts;
use crate::basket::Plain;
use crate::cursor::Cursor;
use crate::error::{FormatError, Result};
use crate::layout::{Kind, Layout, RunHeader};

/// Bounds of a basket's entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bounds {
    /// Start of each entry in the basket's data, followed by the end of the last entry.
    Stored(Vec<u32>),
    /// Size in bytes of each entry, if all entries have the same size.
    Fixed(usize),
}

impl Bounds {
    pub(crate) fn start(&self, entry: usize) -> usize {
        match self {
            Self::Stored(bounds) => bounds.get(entry).map_or(0, |bound| *bound as usize),
            Self::Fixed(size) => entry * size,
        }
    }

    /// End of the longest prefix of `entries` that takes at most `bytes` bytes. Each entry takes `each` extra bytes.
    pub(crate) fn fitting(&self, entries: Range<usize>, bytes: usize, each: usize) -> usize {
        let start = self.start(entries.start);
        let fits = |end: usize| self.start(end) - start + each * (end - entries.start) <= bytes;
        let (mut low, mut high) = (entries.start, entries.end);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if fits(middle) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        low
    }
}

/// The bounds of a basket's entries.
pub(crate) fn bounds_of(plain: &Plain<'_>, kind: &Kind, counts: Option<&Counts>) -> Result<Bounds> {
    if let Some(bounds) = plain.bounds()? {
        return Ok(Bounds::Stored(bounds));
    }
    if plain.entries_count == 0 {
        return Ok(Bounds::Fixed(0));
    }
    match kind {
        Kind::Data(Layout::Fixed { scalar, dimensions }) => {
            let size = scalar.stored_size() * dimensions.iter().product::<usize>();
            plain.fixed_range(size, 0..plain.entries_count).map(|_| Bounds::Fixed(size))
        }
        Kind::Data(Layout::Run { scalar, dimensions, header, .. }) => {
            let element_size = scalar.stored_size() * dimensions.iter().product::<usize>();
            let Some(Counts::Entries(counts)) = counts else { return Err(no_counts()) };
            let of_entry = |cursor: &mut Cursor<'_>, entry: usize| match header {
                RunHeader::None => pass(cursor, counts.get(entry), element_size),
                RunHeader::Pointer => pass_pointed(cursor, counts.get(entry), element_size),
                RunHeader::Count | RunHeader::Container { .. } => Err(no_counts()),
            };
            walked(plain, of_entry)
        }
        Kind::Data(Layout::Arrays { scalar, .. }) => {
            let Some(Counts::Elements { offsets, counts }) = counts else { return Err(no_counts()) };
            walked(plain, |cursor, entry| {
                let elements = offsets.get(entry).zip(offsets.get(entry + 1)).ok_or_else(no_counts)?;
                let counts = counts.get(*elements.0 as usize..*elements.1 as usize).ok_or_else(no_counts)?;
                counts.iter().try_for_each(|count| pass_pointed(cursor, Some(count), scalar.stored_size()))
            })
        }
        Kind::Data(Layout::Objects(program)) => {
            let counts = match counts {
                Some(Counts::Entries(counts)) => Some(counts.as_slice()),
                Some(Counts::Elements { .. }) | None => None,
            };
            program.bounds(plain, counts).map(Bounds::Stored)
        }
        // Like ROOT, assume that entries without offsets all have the same size.
        Kind::Group | Kind::Unreadable { .. } => plain.fixed_size().map(Bounds::Fixed),
    }
}

/// Compute bounds by walking over the entries one by one. Fails unless the entries use all data.
fn walked(plain: &Plain<'_>, mut pass: impl FnMut(&mut Cursor<'_>, usize) -> Result<()>) -> Result<Bounds> {
    let mut cursor = Cursor::new(plain.data);
    let mut bounds = vec![0];
    for entry in 0..plain.entries_count {
        pass(&mut cursor, entry)?;
        bounds.push(cursor.position() as u32);
    }
    match cursor.remaining() {
        0 => Ok(Bounds::Stored(bounds)),
        _ => Err(FormatError::damaged(0, "the element counts do not match the size of the basket")),
    }
}

fn pass(cursor: &mut Cursor<'_>, count: Option<&i64>, element_size: usize) -> Result<()> {
    let count = cursor.checked_count(count.map_or(0, |count| (*count).max(0)), element_size)?;
    cursor.skip(count * element_size)
}

fn pass_pointed(cursor: &mut Cursor<'_>, count: Option<&i64>, element_size: usize) -> Result<()> {
    match cursor.u8()? {
        0 => Ok(()),
        _ => pass(cursor, count, element_size),
    }
}

fn no_counts() -> FormatError {
    FormatError::unsupported("its baskets have no entry offsets and no branch counts the elements")
}
