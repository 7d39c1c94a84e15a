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
    /// Where each begins; nothing where all have as many bytes.
    pub(crate) starts: Option<Vec<u32>>,
    /// How many there are.
    pub(crate) count: u64,
}

/// Why values are not those that the branch takes.
type Unlike = &'static str;

const UNLIKE: Unlike = "its values are of another type than before";
const SHORT: Unlike = "it is given fewer values than entries";

/// Values of a branch: elements of one list for each entry, or one value.
struct View<'a> {
    lists: Option<&'a [i64]>,
    values: &'a Values,
}

/// Adds these entries. `full` takes a basket that has as many bytes as is wanted.
pub(crate) fn append(
    source: &Source,
    kind: &BranchKind,
    fields: &[Values],
    wanted: Range<usize>,
    open: &mut EntryBytes,
    full: &mut dyn FnMut(&mut EntryBytes),
    basket_bytes: usize,
) -> Result<(), Unlike> {
    let view = view(source, fields.get(source.field).ok_or(SHORT)?)?;
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

fn view<'a>(source: &Source, field: &'a Values) -> Result<View<'a>, Unlike> {
    let (mut lists, mut values) = (None, field);
    for member in &source.members {
        if let Values::List { offsets, content } = values {
            lists = Some(offsets.as_slice());
            values = content;
        }
        values = match values {
            Values::Record { members, .. } => members.get(*member).map(|(_, values)| values).ok_or(UNLIKE)?,
            Values::Tuple { items, .. } => items.get(*member).ok_or(UNLIKE)?,
            _ => return Err(UNLIKE),
        };
    }
    Ok(View { lists, values })
}

fn add_entry(
    view: &View<'_>,
    kind: &BranchKind,
    source: &Source,
    entry: usize,
    out: &mut Vec<u8>,
) -> Result<(), Unlike> {
    match kind {
        BranchKind::Numbers(_, dimensions) => {
            let (mut values, mut size) = (view.values, 1);
            for expected in dimensions {
                let Values::Regular { size: own, content } = values else { return Err(UNLIKE) };
                if own != expected {
                    return Err(UNLIKE);
                }
                size *= own;
                values = content;
            }
            add_numbers(values, entry * size..(entry + 1) * size, source, kind, out)
        }
        BranchKind::Text => {
            let Values::Text { offsets, bytes } = view.values else { return Err(UNLIKE) };
            add_text(bytes, span(offsets, entry)?, out)
        }
        BranchKind::List(_) | BranchKind::Lists(_) | BranchKind::Texts => {
            let (offsets, content) = match (view.lists, view.values) {
                (Some(offsets), values) => (offsets, values),
                (None, Values::List { offsets, content }) => (offsets.as_slice(), &**content),
                _ => return Err(UNLIKE),
            };
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

fn add_elements(
    content: &Values,
    elements: Range<usize>,
    kind: &BranchKind,
    source: &Source,
    out: &mut Vec<u8>,
) -> Result<(), Unlike> {
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
        _ => Err(UNLIKE),
    }
}

fn span(offsets: &[i64], index: usize) -> Result<Range<usize>, Unlike> {
    let bound = |index: usize| offsets.get(index).and_then(|offset| usize::try_from(*offset).ok()).ok_or(SHORT);
    let (start, end) = (bound(index)?, bound(index + 1)?);
    if start <= end {
        Ok(start..end)
    } else {
        Err(SHORT)
    }
}

fn add_count(count: usize, out: &mut Vec<u8>) -> Result<(), Unlike> {
    let count = i32::try_from(count).map_err(|_| "an entry has more than 2^31 elements")?;
    out.extend_from_slice(&count.to_be_bytes());
    Ok(())
}

fn add_text(bytes: &[u8], span: Range<usize>, out: &mut Vec<u8>) -> Result<(), Unlike> {
    push_string(out, bytes.get(span).ok_or(SHORT)?).map_err(|_| "a string has more than 2^31 bytes")
}

fn add_numbers(
    values: &Values,
    elements: Range<usize>,
    source: &Source,
    kind: &BranchKind,
    out: &mut Vec<u8>,
) -> Result<(), Unlike> {
    let (BranchKind::Numbers(leaf, _) | BranchKind::List(leaf) | BranchKind::Lists(leaf)) = kind else {
        return Err(UNLIKE);
    };
    let Values::Flat { values, dtype } = values else { return Err(UNLIKE) };
    if elements.is_empty() {
        return Ok(());
    }
    if *dtype != source.dtype {
        return Err(UNLIKE);
    }
    let is_half = *dtype == HALF;
    let size = if is_half { 2 } else { leaf.size() };
    let native = values.get(elements.start * size..elements.end * size).ok_or(SHORT)?;
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
