//! Values as the bytes of entries, big-endian, as ROOT streams them.

use std::ops::Range;

use branchline_format::column::Column as Values;
use branchline_format::marks::byte_count;
use branchline_format::number::half_to_float;
use branchline_format::write::key::push_string;
use branchline_format::write::tree_record::BranchKind;

use crate::write::columns::branches::Source;

/// The version in front of a collection, which is that of TStreamerInfo.
const COLLECTION_VERSION: u16 = 10;

/// Numbers of half precision, which become floats.
const HALF: &str = "f2";

/// Entries of a branch that go into one basket, as they are streamed.
#[derive(Debug, Clone, Default)]
pub(crate) struct EntryBytes {
    /// The bytes of all.
    pub(crate) data: Vec<u8>,
    /// Where each begins; None if all have the same size.
    pub(crate) starts: Option<Vec<u32>>,
    /// How many there are.
    pub(crate) count: u64,
}

/// Why values are not those that the branch takes.
type Mismatch = &'static str;

const OTHER_TYPE: Mismatch = "its values are of another type than before";
const TOO_FEW: Mismatch = "it is given fewer values than entries";

/// Values of a branch: elements of one list for each entry, or one value.
struct BranchValues<'a> {
    lists: Option<&'a [i64]>,
    values: &'a Values,
}

/// Adds these entries. `full` takes a basket that has reached its size.
pub(crate) fn append(
    source: &Source,
    kind: &BranchKind,
    fields: &[Values],
    wanted: Range<usize>,
    open: &mut EntryBytes,
    full: &mut dyn FnMut(&mut EntryBytes),
    basket_bytes: usize,
) -> Result<(), Mismatch> {
    let view = view(source, fields.get(source.field).ok_or(TOO_FEW)?)?;
    for entry in wanted {
        if let Some(starts) = &mut open.starts {
            starts.push(open.data.len() as u32); // of a basket, which has less than 1 GiB
        }
        add_entry(&view, kind, source, entry, &mut open.data)?;
        open.count += 1;
        if open.data.len() >= basket_bytes {
            full(open);
        }
    }
    Ok(())
}

fn view<'a>(source: &Source, field: &'a Values) -> Result<BranchValues<'a>, Mismatch> {
    let (mut lists, mut values) = (None, field);
    for member in &source.members {
        if let Values::List { offsets, content } = values {
            lists = Some(offsets.as_slice());
            values = content;
        }
        values = match values {
            Values::Record { members, .. } => members.get(*member).map(|(_, values)| values).ok_or(OTHER_TYPE)?,
            Values::Tuple { items, .. } => items.get(*member).ok_or(OTHER_TYPE)?,
            _ => return Err(OTHER_TYPE),
        };
    }
    Ok(BranchValues { lists, values })
}

fn add_entry(
    view: &BranchValues<'_>,
    kind: &BranchKind,
    source: &Source,
    entry: usize,
    out: &mut Vec<u8>,
) -> Result<(), Mismatch> {
    match kind {
        BranchKind::Numbers(_, dimensions) => {
            let (values, size) = inner(view.values, dimensions)?;
            add_numbers(values, entry * size..(entry + 1) * size, source, kind, out)
        }
        BranchKind::Counter => add_count(span(lists_of(view)?.0, entry)?.len(), out),
        BranchKind::Counted(_, dimensions, _) => {
            let (offsets, content) = lists_of(view)?;
            let elements = span(offsets, entry)?;
            let (values, size) = inner(content, dimensions)?;
            add_numbers(values, elements.start * size..elements.end * size, source, kind, out)
        }
        BranchKind::Text => {
            let Values::Text { offsets, bytes } = view.values else { return Err(OTHER_TYPE) };
            add_text(bytes, span(offsets, entry)?, out)
        }
        BranchKind::List(_) | BranchKind::Lists(_) | BranchKind::Texts => {
            let (offsets, content) = lists_of(view)?;
            let start = out.len();
            out.extend_from_slice(&[0; 4]);
            out.extend_from_slice(&COLLECTION_VERSION.to_be_bytes());
            let elements = span(offsets, entry)?;
            add_count(elements.len(), out)?;
            add_elements(content, elements, kind, source, out)?;
            let count = byte_count(out.len() - start - 4).ok_or("an entry has more than 1 GiB")?;
            out[start..start + 4].copy_from_slice(&count.to_be_bytes());
            Ok(())
        }
    }
}

/// The offsets of lists, and their elements.
fn lists_of<'a>(view: &BranchValues<'a>) -> Result<(&'a [i64], &'a Values), Mismatch> {
    match (view.lists, view.values) {
        (Some(offsets), values) => Ok((offsets, values)),
        (None, Values::List { offsets, content }) => Ok((offsets.as_slice(), &**content)),
        _ => Err(OTHER_TYPE),
    }
}

/// The numbers of fixed arrays, and how many each array has.
fn inner<'a>(mut values: &'a Values, dimensions: &[usize]) -> Result<(&'a Values, usize), Mismatch> {
    let mut size = 1;
    for expected in dimensions {
        // Where there are no elements their type is not known.
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

/// The largest number of elements that one of these entries has.
pub(crate) fn longest(source: &Source, fields: &[Values], wanted: Range<usize>) -> Result<i32, Mismatch> {
    let view = view(source, fields.get(source.field).ok_or(TOO_FEW)?)?;
    let offsets = lists_of(&view)?.0;
    let bounds = offsets.get(wanted.start..=wanted.end).ok_or(TOO_FEW)?;
    let longest = bounds.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).max().unwrap_or(0);
    i32::try_from(longest).map_err(|_| "an entry has more than 2^31 elements")
}

fn add_elements(
    content: &Values,
    elements: Range<usize>,
    kind: &BranchKind,
    source: &Source,
    out: &mut Vec<u8>,
) -> Result<(), Mismatch> {
    match (kind, content) {
        (BranchKind::List(_), Values::Flat { .. }) => add_numbers(content, elements, source, kind, out),
        (BranchKind::Texts, Values::Text { offsets, bytes }) => {
            for element in elements {
                add_text(bytes, span(offsets, element)?, out)?;
            }
            Ok(())
        }
        (BranchKind::Lists(_), Values::List { offsets, content }) => {
            for element in elements {
                let inner = span(offsets, element)?;
                add_count(inner.len(), out)?;
                add_numbers(content, inner, source, kind, out)?;
            }
            Ok(())
        }
        (BranchKind::Lists(_), Values::Regular { size, content }) => {
            for element in elements {
                add_count(*size, out)?;
                add_numbers(content, element * size..(element + 1) * size, source, kind, out)?;
            }
            Ok(())
        }
        (_, Values::Flat { dtype: "unknown", .. }) if elements.is_empty() => Ok(()),
        _ => Err(OTHER_TYPE),
    }
}

fn span(offsets: &[i64], index: usize) -> Result<Range<usize>, Mismatch> {
    let bound = |index: usize| offsets.get(index).and_then(|offset| usize::try_from(*offset).ok()).ok_or(TOO_FEW);
    let (start, end) = (bound(index)?, bound(index + 1)?);
    if start <= end {
        Ok(start..end)
    } else {
        Err(TOO_FEW)
    }
}

fn add_count(count: usize, out: &mut Vec<u8>) -> Result<(), Mismatch> {
    let count = i32::try_from(count).map_err(|_| "an entry has more than 2^31 elements")?;
    out.extend_from_slice(&count.to_be_bytes());
    Ok(())
}

fn add_text(bytes: &[u8], span: Range<usize>, out: &mut Vec<u8>) -> Result<(), Mismatch> {
    push_string(out, bytes.get(span).ok_or(TOO_FEW)?).map_err(|_| "a string has more than 2^31 bytes")
}

fn add_numbers(
    values: &Values,
    elements: Range<usize>,
    source: &Source,
    kind: &BranchKind,
    out: &mut Vec<u8>,
) -> Result<(), Mismatch> {
    let (BranchKind::Numbers(leaf, _)
    | BranchKind::List(leaf)
    | BranchKind::Lists(leaf)
    | BranchKind::Counted(leaf, ..)) = kind
    else {
        return Err(OTHER_TYPE);
    };
    let Values::Flat { values, dtype } = values else { return Err(OTHER_TYPE) };
    if elements.is_empty() {
        return Ok(());
    }
    if *dtype != source.dtype {
        return Err(OTHER_TYPE);
    }
    let is_half = *dtype == HALF;
    let size = if is_half { 2 } else { leaf.size() };
    let native = values.get(elements.start * size..elements.end * size).ok_or(TOO_FEW)?;
    if is_half {
        native.as_chunks::<2>().0.iter().for_each(|raw| out.extend_from_slice(&half_to_float(*raw).to_be_bytes()));
        return Ok(());
    }
    let start = out.len();
    out.extend_from_slice(native);
    if cfg!(target_endian = "little") && size > 1 {
        match size {
            2 => out[start..].as_chunks_mut::<2>().0.iter_mut().for_each(|raw| raw.reverse()),
            4 => out[start..].as_chunks_mut::<4>().0.iter_mut().for_each(|raw| raw.reverse()),
            _ => out[start..].as_chunks_mut::<8>().0.iter_mut().for_each(|raw| raw.reverse()),
        }
    }
    Ok(())
}
