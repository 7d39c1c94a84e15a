//! Decoding of a range of entries of a basket into columns, for every layout.
//!
//! ```
//! use branchline_format::basket::decode::Counts;
//! use branchline_format::column::Column;
//!
//! let counter = Column::Flat { dtype: "u1", values: vec![2, 0, 3] };
//! assert_eq!(Counts::of(&counter), Some(Counts::Entries(vec![2, 0, 3])));
//! ```

use std::ops::Range;

use crate::basket::{run_values, Plain};
use crate::column::Column;
use crate::cursor::Cursor;
use crate::error::{FormatError, Result};
use crate::layout::{Layout, RunHeader};
use crate::numbers::scalar::Scalar;

/// Element counts of all entries of a basket, read from a counter branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Counts {
    /// One count per entry.
    Entries(Vec<i64>),
    /// One count per element of each entry, for arrays inside elements.
    Elements {
        /// Index of each entry's first element, followed by the total number of elements.
        offsets: Vec<i64>,
        /// The count of each element.
        counts: Vec<i64>,
    },
}

impl Counts {
    /// Convert the values of a counter branch: one integer per entry or per element. None for other columns.
    pub fn of(column: &Column) -> Option<Self> {
        match column {
            Column::Flat { dtype, values } => whole_numbers(dtype, values).map(Self::Entries),
            Column::List { offsets, content } => match content.as_ref() {
                Column::Flat { dtype, values } => {
                    whole_numbers(dtype, values).map(|counts| Self::Elements { offsets: offsets.clone(), counts })
                }
                Column::Regular { .. }
                | Column::List { .. }
                | Column::Text { .. }
                | Column::Record { .. }
                | Column::Tuple { .. }
                | Column::Option { .. }
                | Column::Union { .. } => None,
            },
            Column::Regular { .. }
            | Column::Text { .. }
            | Column::Record { .. }
            | Column::Tuple { .. }
            | Column::Option { .. }
            | Column::Union { .. } => None,
        }
    }
}

/// Convert native integers of the given NumPy type; None for other types.
pub fn whole_numbers(dtype: &str, bytes: &[u8]) -> Option<Vec<i64>> {
    fn all<const SIZE: usize>(bytes: &[u8], number: impl Fn([u8; SIZE]) -> i64) -> Vec<i64> {
        bytes.as_chunks::<SIZE>().0.iter().map(|raw| number(*raw)).collect()
    }
    Some(match dtype {
        "i1" => all(bytes, |raw| i64::from(i8::from_ne_bytes(raw))),
        "u1" => all(bytes, |raw| i64::from(u8::from_ne_bytes(raw))),
        "i2" => all(bytes, |raw| i64::from(i16::from_ne_bytes(raw))),
        "u2" => all(bytes, |raw| i64::from(u16::from_ne_bytes(raw))),
        "i4" => all(bytes, |raw| i64::from(i32::from_ne_bytes(raw))),
        "u4" => all(bytes, |raw| i64::from(u32::from_ne_bytes(raw))),
        "i8" | "u8" => all(bytes, i64::from_ne_bytes),
        _ => return None,
    })
}

/// Decode a range of entries of a basket. `counts` is required for arrays inside elements, and if the basket does not
/// store entry offsets. Fails if the bytes do not match the layout or the counts.
pub fn decode(layout: &Layout, plain: &Plain<'_>, entries: Range<usize>, counts: Option<&Counts>) -> Result<Column> {
    let mut column = Column::empty(layout);
    match layout {
        Layout::Fixed { scalar, dimensions } => {
            let stored = plain.fixed_range(entry_size(*scalar, dimensions), entries)?;
            append_values(*scalar, stored, &mut column);
        }
        Layout::Run { scalar, dimensions, header, .. } => match (plain.bounds()?, counts) {
            (Some(bounds), _) => decode_run(plain, &bounds, entries, *scalar, dimensions, *header, &mut column)?,
            (None, Some(Counts::Entries(counts))) => match header {
                RunHeader::Pointer => decode_pointed(plain, counts, entries, *scalar, dimensions, &mut column)?,
                RunHeader::None | RunHeader::Count | RunHeader::Container { .. } => {
                    decode_counted(plain, counts, entries, *scalar, dimensions, &mut column)?;
                }
            },
            _ if plain.entries_count == 0 => {}
            _ => return Err(no_bounds()),
        },
        Layout::Arrays { scalar, .. } => match counts {
            Some(Counts::Elements { offsets, counts }) => {
                decode_arrays(plain, entries, *scalar, offsets, counts, &mut column)?;
            }
            None | Some(Counts::Entries(_)) => return Err(no_bounds()),
        },
        Layout::Objects(program) => {
            let counts = match counts {
                Some(Counts::Entries(counts)) => Some(counts.as_slice()),
                None | Some(Counts::Elements { .. }) => None,
            };
            return program.decode(plain, entries, counts);
        }
    }
    Ok(column)
}

/// Error for a column whose form does not match the layout.
fn wrong_column() -> FormatError {
    FormatError::internal("the column of a list layout is not a list")
}

fn misfit() -> FormatError {
    FormatError::damaged(0, "the element counts do not match the size of the basket")
}

fn no_bounds() -> FormatError {
    FormatError::damaged(0, "the basket has no entry offsets")
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
    let Column::List { offsets, content } = column else { return Err(wrong_column()) };
    let element_size = entry_size(scalar, dimensions);
    let bounds = &bounds[entries.start..=entries.end];
    offsets.reserve_exact(entries.len());
    let mut end = 0;
    for pair in bounds.windows(2) {
        let entry = &plain.data[pair[0] as usize..pair[1] as usize];
        let stored = run_values(entry, header, element_size)?;
        if header != RunHeader::None {
            append_values(scalar, stored, content);
        }
        end += (stored.len() / element_size) as i64;
        offsets.push(end);
    }
    if let (RunHeader::None, [first, .., last]) = (header, bounds) {
        // The values are contiguous.
        append_values(scalar, &plain.data[*first as usize..*last as usize], content);
    }
    Ok(())
}

/// Decode runs of values without entry offsets. The bounds of the runs follow from the counts of all entries.
fn decode_counted(
    plain: &Plain<'_>,
    counts: &[i64],
    entries: Range<usize>,
    scalar: Scalar,
    dimensions: &[usize],
    column: &mut Column,
) -> Result<()> {
    let Column::List { offsets, content } = column else { return Err(wrong_column()) };
    let element_size = entry_size(scalar, dimensions);
    let size_of = |counts: &[i64]| -> Result<usize> {
        let total = counts.iter().try_fold(0usize, |total, count| {
            usize::try_from(*count).ok().and_then(|count| total.checked_add(count.checked_mul(element_size)?))
        });
        total.filter(|total| *total <= plain.data.len()).ok_or_else(misfit)
    };
    if counts.len() != plain.entries_count || size_of(counts)? != plain.data.len() {
        return Err(misfit());
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

/// Decode runs of values without entry offsets. Each run starts with a flag byte, 0 for a null pointer.
fn decode_pointed(
    plain: &Plain<'_>,
    counts: &[i64],
    entries: Range<usize>,
    scalar: Scalar,
    dimensions: &[usize],
    column: &mut Column,
) -> Result<()> {
    let Column::List { offsets, content } = column else { return Err(wrong_column()) };
    if counts.len() != plain.entries_count {
        return Err(misfit());
    }
    let element_size = entry_size(scalar, dimensions);
    let mut cursor = Cursor::new(plain.data);
    let mut end = 0;
    for (entry, count) in counts.iter().enumerate() {
        let is_there = cursor.u8()? != 0;
        let count = if is_there { cursor.checked_count((*count).max(0), element_size)? } else { 0 };
        let stored = cursor.take(count * element_size)?;
        if entries.contains(&entry) {
            append_values(scalar, stored, content);
            end += count as i64;
            offsets.push(end);
        }
    }
    if cursor.remaining() > 0 {
        return Err(misfit());
    }
    Ok(())
}

/// Decode arrays inside elements. Each array has its own count and starts with a flag byte, 0 for a null pointer.
fn decode_arrays(
    plain: &Plain<'_>,
    entries: Range<usize>,
    scalar: Scalar,
    bounds: &[i64],
    counts: &[i64],
    column: &mut Column,
) -> Result<()> {
    let misfit = || FormatError::damaged(0, "the array counts do not match the entries of the basket");
    let Column::List { offsets, content } = column else { return Err(wrong_column()) };
    let Column::List { offsets: array_offsets, content: values } = content.as_mut() else {
        return Err(wrong_column());
    };
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

/// Visit a range of entries one by one. In a basket without entry offsets, also visits the entries before the range,
/// with `wanted` false.
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::basket::embedded::EmbeddedBasket;
    use crate::numbers::number::Number;

    #[test]
    fn pointed_elements_may_be_arrays() {
        // Two entries: one with a single array of two numbers, one with a null pointer.
        let data = Arc::new(vec![1, 0, 7, 0, 8, 0]);
        let basket = EmbeddedBasket { has_data: true, entries_count: 2, data, ..EmbeddedBasket::default() };
        let header = RunHeader::Pointer;
        let layout = Layout::Run { scalar: Scalar::Plain(Number::I16), dimensions: vec![2], header, count: Some(0) };
        let counts = Counts::Entries(vec![1, 3]);
        let column = decode(&layout, &Plain::embedded(&basket), 0..2, Some(&counts)).unwrap();
        let values = Column::Flat { dtype: "i2", values: [7i16, 8].map(i16::to_ne_bytes).concat() };
        let arrays = Column::Regular { size: 2, content: Box::new(values) };
        assert_eq!(column, Column::List { offsets: vec![0, 1, 1], content: Box::new(arrays) });
    }
}
