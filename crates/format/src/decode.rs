//! Decodes ranges of entries of a basket into columns, for every layout.

use std::ops::Range;

use crate::basket::{run_values, Plain};
use crate::column::Column;
use crate::cursor::Cursor;
use crate::error::{FormatError, Result};
use crate::layout::{Item, Layout, Member, RunHeader, TextLength, ITEM_DEPTH_MAX};
use crate::scalar::Scalar;

/// TObject::kIsReferenced: two bytes of a process id follow the bits.
const IS_REFERENCED: u32 = 1 << 4;

/// How many elements there are, from the branch that counts them, for all entries of a basket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Counts {
    /// Of each entry.
    Entries(Vec<i64>),
    /// Of each element of each entry: where the elements of an entry begin and end, and their counts.
    Elements(Vec<i64>, Vec<i64>),
}

/// Decodes `entries` of a basket. `counts` are needed where the basket does not store where its entries begin, and for
/// arrays within elements.
pub fn decode(layout: &Layout, plain: &Plain<'_>, entries: Range<usize>, counts: Option<&Counts>) -> Result<Column> {
    let mut column = Column::empty(layout);
    match layout {
        Layout::Fixed { scalar, dimensions } => {
            let stored = plain.fixed_range(entry_size(*scalar, dimensions), entries)?;
            append_values(*scalar, stored, &mut column);
        }
        Layout::Run { scalar, dimensions, header, .. } => match (plain.bounds()?, counts) {
            (Some(bounds), _) => decode_run(plain, &bounds, entries, *scalar, dimensions, *header, &mut column)?,
            (None, Some(Counts::Entries(counts))) => {
                decode_counted(plain, counts, entries, *scalar, dimensions, &mut column)?
            }
            _ if plain.entries_count == 0 => {}
            _ => return Err(no_bounds()),
        },
        Layout::Arrays { scalar, .. } => match counts {
            Some(Counts::Elements(ends, counts)) => {
                decode_arrays(plain, entries, *scalar, ends, counts, &mut column)?;
            }
            _ => return Err(no_bounds()),
        },
        Layout::Bits { many } => decode_bits(plain, entries, *many, &mut column)?,
        Layout::Members(members) => decode_members(plain, entries, members, &mut column)?,
        Layout::Text(length) => decode_texts(plain, entries, *length, &mut column)?,
        Layout::Nested { header_size, item } => decode_nested(plain, entries, *header_size, item, &mut column)?,
    }
    Ok(column)
}

fn no_bounds() -> FormatError {
    FormatError::damaged(0, "the basket does not say where its entries begin")
}

fn entry_size(scalar: Scalar, dimensions: &[usize]) -> usize {
    scalar.stored_size() * dimensions.iter().product::<usize>()
}

fn append_values(scalar: Scalar, stored: &[u8], column: &mut Column) {
    if let Some(values) = column.values_mut() {
        let start = values.len();
        values.resize(start + stored.len() / scalar.stored_size() * scalar.size(), 0);
        scalar.decode(stored, &mut values[start..]);
    }
}

fn decode_run(
    plain: &Plain<'_>,
    bounds: &[u32],
    entries: Range<usize>,
    scalar: Scalar,
    dimensions: &[usize],
    header: RunHeader,
    column: &mut Column,
) -> Result<()> {
    let Column::List { offsets, content } = column else { return Err(no_bounds()) };
    let element_size = entry_size(scalar, dimensions);
    let mut end = 0;
    for pair in bounds[entries.start..=entries.end].windows(2) {
        let entry = &plain.data[pair[0] as usize..pair[1] as usize];
        let stored = run_values(entry, header, element_size)?;
        append_values(scalar, stored, content);
        end += (stored.len() / element_size) as i64;
        offsets.push(end);
    }
    Ok(())
}

/// Runs without entry offsets: the counts of all entries of the basket tell them apart.
fn decode_counted(
    plain: &Plain<'_>,
    counts: &[i64],
    entries: Range<usize>,
    scalar: Scalar,
    dimensions: &[usize],
    column: &mut Column,
) -> Result<()> {
    let Column::List { offsets, content } = column else { return Err(no_bounds()) };
    let element_size = entry_size(scalar, dimensions);
    let size_of = |counts: &[i64]| -> Result<usize> {
        let total = counts.iter().try_fold(0usize, |total, count| {
            usize::try_from(*count).ok().and_then(|count| total.checked_add(count.checked_mul(element_size)?))
        });
        total
            .filter(|total| *total <= plain.data.len())
            .ok_or_else(|| FormatError::damaged(0, "the counts of the entries do not fit the data of the basket"))
    };
    if counts.len() != plain.entries_count || size_of(counts)? != plain.data.len() {
        return Err(FormatError::damaged(0, "the counts of the entries do not fit the data of the basket"));
    }
    let start = size_of(&counts[..entries.start])?;
    let stop = size_of(&counts[..entries.end])?;
    append_values(scalar, &plain.data[start..stop], content);
    let mut end = 0;
    offsets.extend(counts[entries].iter().map(|count| {
        end += count;
        end
    }));
    Ok(())
}

/// Elements that each have a byte, which is 0 for a null pointer, and their own number of values.
fn decode_arrays(
    plain: &Plain<'_>,
    entries: Range<usize>,
    scalar: Scalar,
    bounds: &[i64],
    counts: &[i64],
    column: &mut Column,
) -> Result<()> {
    let misfit = || FormatError::damaged(0, "the counts of the arrays do not fit the entries of the basket");
    let Column::List { offsets, content } = column else { return Err(misfit()) };
    let Column::List { offsets: array_offsets, content: values } = content.as_mut() else { return Err(misfit()) };
    if bounds.len() != plain.entries_count + 1 {
        return Err(misfit());
    }
    let (mut elements, mut end) = (0, 0);
    each_entry(plain, entries, |cursor, entry, wanted| {
        let of_entry = bounds[entry] as usize..bounds[entry + 1] as usize;
        for count in counts.get(of_entry).ok_or_else(misfit)? {
            let is_there = cursor.u8()? != 0;
            let count = if is_there { cursor.checked_count((*count).max(0), scalar.stored_size())? } else { 0 };
            let stored = cursor.take(count * scalar.stored_size())?;
            if wanted {
                append_values(scalar, stored, values);
                end += count as i64;
                array_offsets.push(end);
                elements += 1;
            }
        }
        if wanted {
            offsets.push(elements);
        }
        Ok(())
    })
}

/// Walks over the entries of a basket one by one.
fn each_entry(
    plain: &Plain<'_>,
    entries: Range<usize>,
    mut visit: impl FnMut(&mut Cursor<'_>, usize, bool) -> Result<()>,
) -> Result<()> {
    if let Some(bounds) = plain.bounds()? {
        for (index, pair) in entries.clone().zip(bounds[entries.start..=entries.end].windows(2)) {
            let mut cursor = Cursor::new(&plain.data[pair[0] as usize..pair[1] as usize]);
            visit(&mut cursor, index, true).map_err(|error| error.in_object(format!("entry {index}")))?;
        }
        return Ok(());
    }
    let mut cursor = Cursor::new(plain.data);
    for index in 0..entries.end {
        visit(&mut cursor, index, index >= entries.start).map_err(|error| error.in_object(format!("entry {index}")))?;
    }
    Ok(())
}

fn decode_bits(plain: &Plain<'_>, entries: Range<usize>, many: bool, column: &mut Column) -> Result<()> {
    if many && plain.entries_count > 0 && plain.bounds()?.is_none() {
        return Err(no_bounds());
    }
    let mut values = Vec::new();
    let mut ends = Vec::new();
    each_entry(plain, entries, |cursor, _, wanted| {
        while !many || cursor.remaining() > 0 {
            let bits = cursor.u32()?;
            if bits & IS_REFERENCED != 0 {
                cursor.skip(2)?;
            }
            if wanted {
                values.extend_from_slice(&bits.to_ne_bytes());
            }
            if !many {
                break;
            }
        }
        ends.push((values.len() / 4) as i64);
        Ok(())
    })?;
    if let Column::List { offsets, content } = column {
        offsets.extend(ends);
        **content = Column::Flat { dtype: Scalar::U32.dtype(), values };
    } else if let Some(into) = column.values_mut() {
        *into = values;
    }
    Ok(())
}

fn decode_members(plain: &Plain<'_>, entries: Range<usize>, members: &[Member], column: &mut Column) -> Result<()> {
    let Column::Record { count, members: columns, .. } = column else { return Err(no_bounds()) };
    let sizes: Vec<usize> = members.iter().map(|member| entry_size(member.scalar, &member.dimensions)).collect();
    let stride: usize = sizes.iter().sum();
    *count += entries.len();
    let stored = plain.fixed_range(stride, entries)?;
    for entry in stored.chunks_exact(stride.max(1)) {
        let mut at = 0;
        for ((member, size), (_, column)) in members.iter().zip(&sizes).zip(columns.iter_mut()) {
            append_values(member.scalar, &entry[at..at + size], column);
            at += size;
        }
    }
    Ok(())
}

fn decode_texts(plain: &Plain<'_>, entries: Range<usize>, length: TextLength, column: &mut Column) -> Result<()> {
    let Column::Text { offsets, bytes } = column else { return Err(no_bounds()) };
    let has_bounds = plain.bounds()?.is_some();
    each_entry(plain, entries, |cursor, _, wanted| {
        if length == TextLength::Versioned {
            cursor.version_header()?;
        }
        let text = match length {
            TextLength::Long => {
                let size = i64::from(cursor.i32()?);
                let size = cursor.checked_count(size, 1)?;
                cursor.take(size)?
            }
            // An entry of no bytes at all is a string that was empty.
            TextLength::Short if has_bounds && cursor.remaining() == 0 => &[],
            TextLength::Short | TextLength::Versioned => cursor.string_bytes()?,
        };
        if wanted {
            bytes.extend_from_slice(text);
            offsets.push(bytes.len() as i64);
        }
        Ok(())
    })
}

fn decode_nested(
    plain: &Plain<'_>,
    entries: Range<usize>,
    header_size: usize,
    item: &Item,
    column: &mut Column,
) -> Result<()> {
    if plain.entries_count == 0 {
        return Ok(());
    }
    let bounds = plain.bounds()?.ok_or_else(no_bounds)?;
    for (index, pair) in bounds[entries.start..=entries.end].windows(2).enumerate() {
        let mut cursor = Cursor::new(&plain.data[pair[0] as usize..pair[1] as usize]);
        let named = |error: FormatError| error.in_object(format!("entry {}", entries.start + index));
        // An empty container of a split collection is written without a header.
        let skipped = if cursor.remaining() == 0 { Ok(()) } else { cursor.skip(header_size) };
        skipped.and_then(|()| read_item(&mut cursor, item, column, 0)).map_err(named)?;
        if cursor.remaining() > 0 {
            let message = format!("{} bytes are left behind the entry", cursor.remaining());
            return Err(named(FormatError::damaged(cursor.position() as u64, message)));
        }
    }
    Ok(())
}

fn read_item(cursor: &mut Cursor<'_>, item: &Item, column: &mut Column, depth: usize) -> Result<()> {
    match (item, column) {
        (Item::Scalar(scalar), column) => {
            append_values(*scalar, cursor.take(scalar.stored_size())?, column);
        }
        (Item::Text, Column::Text { offsets, bytes }) => {
            bytes.extend_from_slice(cursor.string_bytes()?);
            offsets.push(bytes.len() as i64);
        }
        (Item::List(inner), Column::List { offsets, content }) if depth <= ITEM_DEPTH_MAX => {
            let count = i64::from(cursor.i32()?);
            let count = cursor.checked_count(count, 1)?;
            read_list(cursor, inner, count, content, depth)?;
            offsets.push(offsets.last().copied().unwrap_or(0) + count as i64);
        }
        (Item::Rest(inner), Column::List { offsets, content }) if depth <= ITEM_DEPTH_MAX => {
            let mut count = 0;
            while cursor.remaining() > 0 {
                read_item(cursor, inner, content, depth + 1)?;
                count += 1;
            }
            offsets.push(offsets.last().copied().unwrap_or(0) + count);
        }
        _ => return Err(FormatError::damaged(cursor.position() as u64, "containers are nested too deeply")),
    }
    Ok(())
}

fn read_list(cursor: &mut Cursor<'_>, inner: &Item, count: usize, content: &mut Column, depth: usize) -> Result<()> {
    if let Item::Scalar(scalar) = inner {
        let stored = cursor.take(count.saturating_mul(scalar.stored_size()))?;
        append_values(*scalar, stored, content);
        return Ok(());
    }
    (0..count).try_for_each(|_| read_item(cursor, inner, content, depth + 1))
}
