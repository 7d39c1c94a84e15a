//! Where the entries of a basket without entry offsets begin and end, by its layout and by the branch that counts its
//! elements (TBranch::GenerateOffsetArray).

use std::ops::Range;

use crate::basket::decode::Counts;
use crate::basket::Plain;
use crate::cursor::Cursor;
use crate::error::{FormatError, Result};
use crate::layout::{Kind, Layout, RunHeader};

/// Where entries begin and end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bounds {
    /// At these offsets in the data of the basket, with the end of the last entry.
    Stored(Vec<u32>),
    /// All have this number of bytes.
    Fixed(usize),
}

impl Bounds {
    pub(crate) fn start(&self, entry: usize) -> usize {
        match self {
            Self::Stored(bounds) => bounds.get(entry).map_or(0, |bound| *bound as usize),
            Self::Fixed(size) => entry * size,
        }
    }

    /// The end of the largest range of these entries that takes at most `bytes`, with `each` more for every entry.
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

/// Start of each entry of a basket, and end of the last.
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
        // ROOT takes entries without offsets for entries of one size.
        Kind::Group | Kind::Unreadable { .. } => plain.fixed_size().map(Bounds::Fixed),
    }
}

/// Passes over entries one by one, which must take all of the data.
fn walked(plain: &Plain<'_>, mut pass: impl FnMut(&mut Cursor<'_>, usize) -> Result<()>) -> Result<Bounds> {
    let mut cursor = Cursor::new(plain.data);
    let mut bounds = vec![0];
    for entry in 0..plain.entries_count {
        pass(&mut cursor, entry)?;
        bounds.push(cursor.position() as u32);
    }
    match cursor.remaining() {
        0 => Ok(Bounds::Stored(bounds)),
        _ => Err(FormatError::damaged(0, "the counts of the entries do not fit the data of the basket")),
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
    FormatError::unsupported("its baskets do not say where its entries begin, nor does a branch that counts them")
}
