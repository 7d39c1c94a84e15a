//! Streams values as the big-endian bytes of entries, as ROOT does, for many entries at a time.

use std::ops::Range;

use branchline_format::marks::byte_count;
use branchline_format::numbers::number::half_to_float;
use branchline_format::write::key::{push_string, string_size};
use branchline_format::write::tree::tree_record::BranchKind;

use crate::write::columns::branches::Source;
use crate::write::columns::writer::Values;

/// Version number in the header of a collection, which is the class version of TStreamerInfo.
const COLLECTION_VERSION: u16 = 10;
/// Size of a collection's header: byte count, version, and number of elements.
const COLLECTION_HEAD_BYTES: usize = 10;
/// Size of an element count.
const COUNT_BYTES: usize = 4;
/// Size of an entry's start offset.
const START_BYTES: usize = 4;
/// NumPy's name of half-precision numbers, which become floats.
const HALF: &str = "f2";
/// Number of bytes that are byte-swapped at a time, so that they stay in the L1 cache.
const SWAPPED_AT_ONCE_BYTES: usize = 16 << 10;

/// The streamed entries of a branch for one basket.
#[derive(Debug, Clone, Default)]
pub(crate) struct EntryBytes {
    /// The bytes of all entries, after space for the key.
    pub(crate) data: Vec<u8>,
    /// The start offset of each entry. None if all entries have the same size.
    pub(crate) starts: Option<Vec<u32>>,
    /// Number of entries.
    pub(crate) count: u64,
}

impl EntryBytes {
    /// Size of the entries in memory, which equals their size in the basket.
    pub(crate) fn bytes(&self) -> usize {
        self.data.len() + START_BYTES * self.starts.as_ref().map_or(0, Vec::len)
    }

    /// Removes all entries, but keeps the allocated memory.
    pub(crate) fn clear(&mut self, key_size: usize, has_starts: bool) {
        self.data.clear();
        self.data.resize(key_size, 0);
        self.count = 0;
        self.starts = has_starts.then(|| {
            let mut starts = self.starts.take().unwrap_or_default();
            starts.clear();
            starts
        });
    }
}

/// The reason why values do not fit a branch.
pub(crate) type Mismatch = &'static str;

const OTHER_TYPE: Mismatch = "its values have another type than before";
const TOO_FEW: Mismatch = "it has fewer values than entries";
const TOO_MANY: Mismatch = "an entry has more than 2^31 elements";

/// The values of a branch. An entry is either one value or the elements of one list.
pub(crate) struct BranchValues<'a> {
    kind: &'a BranchKind,
    /// NumPy's name of the innermost numbers' type.
    dtype: &'static str,
    lists: Option<&'a [i64]>,
    values: &'a Values<'a>,
}

impl<'a> BranchValues<'a> {
    /// Selects the values of a branch from the values of all fields.
    pub(crate) fn of(source: &Source, kind: &'a BranchKind, fields: &'a [Values<'a>]) -> Result<Self, Mismatch> {
        let (mut lists, mut values) = (None, fields.get(source.field).ok_or(TOO_FEW)?);
        for member in &source.members {
            if let Values::List { offsets, content } = values {
                lists = Some(*offsets);
                values = content;
            }
            values = match values {
                Values::Record { members, .. } => members.get(*member).map(|(_, values)| values).ok_or(OTHER_TYPE)?,
                Values::Tuple { items, .. } => items.get(*member).ok_or(OTHER_TYPE)?,
                _ => return Err(OTHER_TYPE),
            };
        }
        Ok(Self { kind, dtype: source.dtype, lists, values })
    }

    /// Returns how many of these entries fit in `room` bytes, including their start offsets, by ROOT's rule for the
    /// size of a basket. Returns None if all entries fit and some room is left.
    pub(crate) fn filling(&self, wanted: Range<usize>, room: usize) -> Result<Option<usize>, Mismatch> {
        let fixed = |size: usize| (room / size.max(1), room % size.max(1));
        let (count, left) = match self.kind {
            BranchKind::Counter => fixed(COUNT_BYTES),
            BranchKind::Numbers(leaf, dimensions) => fixed(inner(self.values, dimensions)?.1 * leaf.size()),
            BranchKind::Counted(leaf, dimensions, _) => {
                let (offsets, content) = self.lists()?;
                let size = (inner(content, dimensions)?.1 * leaf.size()) as u64;
                let (first, ends) = bounds_of(offsets, &wanted)?.split_first().ok_or(TOO_FEW)?;
                let taken = |count: usize| {
                    let elements = ends[..count].last().map_or(0, |end| end.saturating_sub(*first).max(0) as u64);
                    elements.saturating_mul(size).saturating_add((START_BYTES * count) as u64)
                };
                let (mut count, mut beyond) = (0, ends.len() + 1);
                while count + 1 < beyond {
                    let middle = count + (beyond - count) / 2;
                    if taken(middle) <= room as u64 {
                        count = middle;
                    } else {
                        beyond = middle;
                    }
                }
                (count, room.saturating_sub(taken(count) as usize))
            }
            _ => {
                let (mut count, mut left) = (0, room);
                for entry in wanted.clone() {
                    // An invalid value counts as empty here. Its error is reported when it is added.
                    let size = START_BYTES + self.size(entry).unwrap_or(0);
                    let Some(rest) = left.checked_sub(size) else { break };
                    (count, left) = (count + 1, rest);
                }
                (count, left)
            }
        };
        let is_open = count > wanted.len() || (count == wanted.len() && left > 0);
        Ok((!is_open).then_some(count))
    }

    /// Returns the size of an entry in a branch whose entries are streamed one by one.
    fn size(&self, entry: usize) -> Result<usize, Mismatch> {
        let text = |bytes: &[u8], span| bytes.get(span).map(|text| string_size(text) as usize).ok_or(TOO_FEW);
        if let (BranchKind::Text | BranchKind::Characters, Values::Text { offsets, bytes }) = (self.kind, self.values) {
            return text(bytes, span(offsets, entry)?);
        }
        let (offsets, content) = self.lists()?;
        let mut elements = span(offsets, entry)?;
        let inner: usize = match (self.kind, content) {
            (BranchKind::List(leaf), _) => elements.len() * leaf.size(),
            (BranchKind::Texts, Values::Text { offsets, bytes }) => {
                elements.try_fold(0, |size, element| Ok(size + text(bytes, span(offsets, element)?)?))?
            }
            (BranchKind::Lists(leaf), Values::List { offsets, .. }) => {
                let all = bounds_of(offsets, &elements)?;
                elements.len() * COUNT_BYTES + all[elements.len()].saturating_sub(all[0]).max(0) as usize * leaf.size()
            }
            (BranchKind::Lists(leaf), Values::Regular { size, .. }) => {
                elements.len() * (COUNT_BYTES + size * leaf.size())
            }
            _ => 0,
        };
        Ok(COLLECTION_HEAD_BYTES + inner)
    }

    /// Appends these entries to `open`.
    pub(crate) fn add(&self, wanted: Range<usize>, open: &mut EntryBytes) -> Result<(), Mismatch> {
        let count = wanted.len() as u64;
        match self.kind {
            BranchKind::Numbers(leaf, dimensions) => {
                let (values, size) = inner(self.values, dimensions)?;
                self.add_numbers(values, wanted.start * size..wanted.end * size, leaf.size(), &mut open.data)?;
            }
            BranchKind::Counter => add_counts(bounds_of(self.lists()?.0, &wanted)?, &mut open.data)?,
            BranchKind::Counted(leaf, dimensions, _) => {
                let (offsets, content) = self.lists()?;
                let (values, size) = inner(content, dimensions)?;
                let bounds = bounds_of(offsets, &wanted)?;
                let (first, last) = span_of(bounds)?;
                if let Some(starts) = &mut open.starts {
                    // The wrapping casts are safe, because a basket has less than 1 GiB.
                    let (before, entry_bytes) = (open.data.len() as u32, (size * leaf.size()) as u32);
                    let start =
                        |bound: &i64| before.wrapping_add(((bound - bounds[0]) as u32).wrapping_mul(entry_bytes));
                    starts.extend(bounds[..wanted.len()].iter().map(start));
                }
                self.add_numbers(values, first * size..last * size, leaf.size(), &mut open.data)?;
            }
            _ => {
                for entry in wanted {
                    if let Some(starts) = &mut open.starts {
                        starts.push(open.data.len() as u32);
                    }
                    self.add_entry(entry, &mut open.data)?;
                }
            }
        }
        open.count += count;
        Ok(())
    }

    /// Appends a string or a collection.
    fn add_entry(&self, entry: usize, out: &mut Vec<u8>) -> Result<(), Mismatch> {
        if let BranchKind::Text | BranchKind::Characters = self.kind {
            let Values::Text { offsets, bytes } = self.values else { return Err(OTHER_TYPE) };
            return add_text(bytes, span(offsets, entry)?, out);
        }
        let (offsets, content) = self.lists()?;
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&COLLECTION_VERSION.to_be_bytes());
        let elements = span(offsets, entry)?;
        add_count(elements.len(), out)?;
        self.add_elements(content, elements, out)?;
        let count = byte_count(out.len() - start - 4).ok_or("an entry has more than 1 GiB")?;
        out[start..start + 4].copy_from_slice(&count.to_be_bytes());
        Ok(())
    }

    fn add_elements(&self, content: &Values<'_>, elements: Range<usize>, out: &mut Vec<u8>) -> Result<(), Mismatch> {
        match (self.kind, content) {
            (BranchKind::List(leaf), Values::Flat { .. }) => self.add_numbers(content, elements, leaf.size(), out),
            (BranchKind::Texts, Values::Text { offsets, bytes }) => {
                for element in elements {
                    add_text(bytes, span(offsets, element)?, out)?;
                }
                Ok(())
            }
            (BranchKind::Lists(leaf), Values::List { offsets, content }) => {
                for element in elements {
                    let inner = span(offsets, element)?;
                    add_count(inner.len(), out)?;
                    self.add_numbers(content, inner, leaf.size(), out)?;
                }
                Ok(())
            }
            (BranchKind::Lists(leaf), Values::Regular { size, content }) => {
                for element in elements {
                    add_count(*size, out)?;
                    self.add_numbers(content, element * size..(element + 1) * size, leaf.size(), out)?;
                }
                Ok(())
            }
            (_, Values::Flat { dtype: "unknown", .. }) if elements.is_empty() => Ok(()),
            _ => Err(OTHER_TYPE),
        }
    }

    /// Returns the offsets of the branch's lists, and the elements of the lists.
    fn lists(&self) -> Result<(&'a [i64], &'a Values<'a>), Mismatch> {
        match (self.lists, self.values) {
            (Some(offsets), values) => Ok((offsets, values)),
            (None, Values::List { offsets, content }) => Ok((offsets, &**content)),
            _ => Err(OTHER_TYPE),
        }
    }

    /// Returns the maximum number of elements in these entries. For strings, this is the maximum number of characters.
    pub(crate) fn longest(&self, wanted: &Range<usize>) -> Result<i32, Mismatch> {
        let offsets = match (self.kind, self.values) {
            (BranchKind::Characters, Values::Text { offsets, .. }) => offsets,
            _ => self.lists()?.0,
        };
        let bounds = bounds_of(offsets, wanted)?;
        let longest = bounds.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).max().unwrap_or(0);
        i32::try_from(longest).map_err(|_| TOO_MANY)
    }

    fn add_numbers(
        &self,
        values: &Values<'_>,
        elements: Range<usize>,
        size: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Mismatch> {
        let Values::Flat { values, dtype } = values else { return Err(OTHER_TYPE) };
        if elements.is_empty() {
            return Ok(());
        }
        if *dtype != self.dtype {
            return Err(OTHER_TYPE);
        }
        let is_half = *dtype == HALF;
        let size = if is_half { 2 } else { size };
        let native = values.get(elements.start * size..elements.end * size).ok_or(TOO_FEW)?;
        if is_half {
            native.as_chunks::<2>().0.iter().for_each(|raw| out.extend_from_slice(&half_to_float(*raw).to_be_bytes()));
        } else {
            add_big_endian(native, size, out);
        }
        Ok(())
    }
}

/// Appends numbers of `size` bytes each, in big-endian byte order.
fn add_big_endian(native: &[u8], size: usize, out: &mut Vec<u8>) {
    if cfg!(target_endian = "big") || size == 1 {
        out.extend_from_slice(native);
        return;
    }
    out.reserve(native.len());
    for part in native.chunks(SWAPPED_AT_ONCE_BYTES) {
        let start = out.len();
        out.extend_from_slice(part);
        let added = &mut out[start..];
        match size {
            2 => swap::<2>(added, |raw| u16::from_ne_bytes(raw).swap_bytes().to_ne_bytes()),
            4 => swap::<4>(added, |raw| u32::from_ne_bytes(raw).swap_bytes().to_ne_bytes()),
            _ => swap::<8>(added, |raw| u64::from_ne_bytes(raw).swap_bytes().to_ne_bytes()),
        }
    }
}

fn swap<const SIZE: usize>(bytes: &mut [u8], swapped: impl Fn([u8; SIZE]) -> [u8; SIZE]) {
    bytes.as_chunks_mut::<SIZE>().0.iter_mut().for_each(|raw| *raw = swapped(*raw));
}

/// Appends the lengths of the lists with these bounds.
fn add_counts(bounds: &[i64], out: &mut Vec<u8>) -> Result<(), Mismatch> {
    span_of(bounds)?;
    let start = out.len();
    out.resize(start + COUNT_BYTES * bounds.len().saturating_sub(1), 0);
    let mut all = 0;
    for (place, pair) in out[start..].as_chunks_mut::<COUNT_BYTES>().0.iter_mut().zip(bounds.windows(2)) {
        let count = pair[1] - pair[0];
        all |= count;
        *place = (count as i32).to_be_bytes();
    }
    i32::try_from(all).map(|_| ()).map_err(|_| TOO_MANY)
}

/// Returns the innermost numbers of fixed-size arrays, and how many numbers each array has.
fn inner<'a>(mut values: &'a Values<'a>, dimensions: &[usize]) -> Result<(&'a Values<'a>, usize), Mismatch> {
    let mut size = 1;
    for expected in dimensions {
        // Arrays without elements have lost the type of their elements.
        if matches!(values, Values::Flat { dtype: "unknown", .. }) {
            return Ok((values, size));
        }
        let Values::Regular { size: own, content } = values else { return Err(OTHER_TYPE) };
        if own != expected {
            return Err(OTHER_TYPE);
        }
        size *= own;
        values = content;
    }
    Ok((values, size))
}

/// Returns the start offsets of these lists, followed by the end of the last list.
fn bounds_of<'a>(offsets: &'a [i64], wanted: &Range<usize>) -> Result<&'a [i64], Mismatch> {
    offsets.get(wanted.start..=wanted.end).ok_or(TOO_FEW)
}

/// Returns the start of the first list and the end of the last list with these bounds.
fn span_of(bounds: &[i64]) -> Result<(usize, usize), Mismatch> {
    let (Some(first), Some(last)) = (bounds.first(), bounds.last()) else { return Err(TOO_FEW) };
    match (usize::try_from(*first), usize::try_from(*last)) {
        (Ok(first), Ok(last)) if bounds.is_sorted() => Ok((first, last)),
        _ => Err(TOO_FEW),
    }
}

fn span(offsets: &[i64], index: usize) -> Result<Range<usize>, Mismatch> {
    let (first, last) = span_of(offsets.get(index..index + 2).ok_or(TOO_FEW)?)?;
    Ok(first..last)
}

fn add_count(count: usize, out: &mut Vec<u8>) -> Result<(), Mismatch> {
    out.extend_from_slice(&i32::try_from(count).map_err(|_| TOO_MANY)?.to_be_bytes());
    Ok(())
}

fn add_text(bytes: &[u8], span: Range<usize>, out: &mut Vec<u8>) -> Result<(), Mismatch> {
    push_string(out, bytes.get(span).ok_or(TOO_FEW)?).map_err(|_| "a string has more than 2^31 bytes")
}
