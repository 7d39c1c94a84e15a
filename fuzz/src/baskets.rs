//! Baskets as inputs choose them, and what must be true of whatever is decoded from them.

use std::ops::Range;
use std::sync::Arc;

use branchline_format::basket::decode::{decode, Counts};
use branchline_format::basket::embedded::{read_basket_head, EmbeddedBasket};
use branchline_format::basket::{decode_run_into, BasketRecord, Plain};
use branchline_format::column::Column;
use branchline_format::compress::Decompressor;
use branchline_format::cursor::Cursor;
use branchline_format::layout::Layout;

use crate::columns::checked_len;
use crate::input::Input;
use crate::memory::bounded;

/// Bytes of memory for a plain byte of a basket: offsets of eight bytes for entries of one, on several levels, in
/// buffers that grow to twice their size.
const FACTOR: usize = 64;

/// The same for objects, of which much can be made without bytes behind it (`objects/unstored.rs`): 256 times the bytes
/// and so much anyway, in buffers that grow.
const OBJECTS_FACTOR: usize = 1024;
const UNSTORED_BYTES: usize = 64 << 20;

/// Decodes the basket that is the rest of an input: a record, or one that came embedded in a tree. `described_bytes`
/// may be taken into account for what the layout itself takes. What is decoded at once has to equal what is decoded in
/// two parts, and what is decoded in place.
pub fn check(layout: &Layout, input: &mut Input<'_>, described_bytes: usize) {
    let is_embedded = input.byte() % 2 == 1;
    let split = usize::from(input.byte());
    let counts = counts(layout, input.part());
    let checked = Checked { layout, counts: counts.as_ref(), split, described_bytes };
    if is_embedded {
        let basket = embedded(input);
        checked.decode_all(&Plain::embedded(&basket));
    } else {
        checked.decode_record(input.0);
    }
}

/// The bytes in front of a record that is a seed: no counts, and a split at entry 3.
pub fn put_record(seed: &mut Vec<u8>, record: &[u8]) {
    seed.extend([0, 3, 0, 0]);
    seed.extend_from_slice(record);
}

/// A seed of a basket that came embedded in a tree.
pub fn put_embedded(seed: &mut Vec<u8>, basket: &EmbeddedBasket) {
    let offsets = basket.offsets.clone().unwrap_or_default();
    let entries_count = basket.entries_count.min(usize::from(u8::MAX));
    seed.extend([1, 3, 0, 0, basket.key_size as u8, entries_count as u8, u8::from(!offsets.is_empty())]);
    for entry in 0..=entries_count {
        let offset = offsets.get(entry).copied().unwrap_or(0);
        seed.extend_from_slice(&(offset as u16).to_le_bytes());
    }
    seed.extend_from_slice(&basket.data);
}

/// Numbers of elements as another branch might give them: one byte each, the ends of the range stand for more.
fn counts(layout: &Layout, bytes: &[u8]) -> Option<Counts> {
    let number = |byte: &u8| match *byte as i8 {
        i8::MAX => i64::MAX,
        i8::MIN => i64::MIN,
        other => i64::from(other),
    };
    match layout {
        Layout::Run { .. } => Some(Counts::Entries(bytes.iter().map(number).collect())),
        Layout::Objects(_) if !bytes.is_empty() => Some(Counts::Entries(bytes.iter().map(number).collect())),
        Layout::Arrays { .. } => {
            // Two elements in each entry.
            let offsets = (0..=bytes.len() / 2).map(|entry| 2 * entry as i64).collect();
            Some(Counts::Elements { offsets, counts: bytes.iter().map(number).collect() })
        }
        _ => None,
    }
}

fn embedded(input: &mut Input<'_>) -> EmbeddedBasket {
    let key_size = u64::from(input.byte());
    let entries_count = usize::from(input.byte());
    let has_offsets = input.byte() % 2 == 1;
    let offsets: Vec<u32> = (0..=entries_count).map(|_| u32::from(input.short())).collect();
    let data = Arc::new(input.0.to_vec());
    EmbeddedBasket {
        has_data: true,
        key_size,
        entries_count,
        data,
        offsets: has_offsets.then_some(offsets),
        ..EmbeddedBasket::default()
    }
}

struct Checked<'a> {
    layout: &'a Layout,
    counts: Option<&'a Counts>,
    split: usize,
    described_bytes: usize,
}

impl Checked<'_> {
    fn decode_record(&self, bytes: &[u8]) {
        let Ok((_, head)) = read_basket_head(&mut Cursor::new(bytes)) else { return };
        let Ok(record) = BasketRecord::parse(bytes, head.entries_count as u64) else { return };
        let mut room = Vec::new();
        let Ok(plain) = record.decompress(&mut Decompressor::new(), &mut room) else { return };
        let plain = record.plain(plain);
        let whole = self.decode_all(&plain);
        if let (Some(whole), Some(elements_count)) = (whole, record.run_elements_count(self.layout)) {
            self.decode_in_place(&plain, &whole, elements_count);
        }
    }

    fn decode_all(&self, plain: &Plain<'_>) -> Option<Column> {
        let end = plain.entries_count;
        let plain_bytes = plain.data.len() + 4 * plain.bounds().ok().flatten().map_or(0, |bounds| bounds.len());
        let (input_bytes, factor) = match self.layout {
            Layout::Objects(_) => {
                (plain_bytes + self.described_bytes + UNSTORED_BYTES / OBJECTS_FACTOR, OBJECTS_FACTOR)
            }
            _ => (plain_bytes + self.described_bytes, FACTOR),
        };
        let part =
            |entries: Range<usize>| bounded(input_bytes, factor, || decode(self.layout, plain, entries, self.counts));
        let whole = part(0..end).ok()?;
        assert_eq!(checked_len(&whole), end);
        let middle = self.split.min(end);
        let mut parts = part(0..middle).expect("a part of what can be decoded");
        let rest = part(middle..end).expect("the other part of what can be decoded");
        parts.append(rest).expect("no more classes than in the whole");
        assert_eq!(checked_len(&parts), end);
        // Which types are met first, and so come first, depends on where a part begins.
        assert!(parts == whole || has_choices(&whole), "{parts:?} is made of parts, not {whole:?}");
        Some(whole)
    }

    fn decode_in_place(&self, plain: &Plain<'_>, whole: &Column, elements_count: usize) {
        let Layout::Run { scalar, dimensions, header, .. } = self.layout else { return };
        let length = dimensions.iter().product::<usize>();
        let mut offsets = vec![0; plain.entries_count];
        let mut values = vec![0; elements_count * length * scalar.size()];
        if decode_run_into(plain, *scalar, length, *header, 0, &mut offsets, &mut values).is_err() {
            return; // what lies in front of the first entry counts in place, and only there
        }
        let Column::List { offsets: ends, content } = whole else { panic!("a run is a list") };
        assert_eq!(offsets, ends[1..]);
        assert_eq!(Some(&mut values), content.clone().values_mut());
    }
}

/// Whether a column has values of which each may be of another type, or missing.
fn has_choices(column: &Column) -> bool {
    match column {
        Column::Flat { .. } | Column::Text { .. } => false,
        Column::Regular { content, .. } | Column::List { content, .. } => has_choices(content),
        Column::Record { members, .. } => members.iter().any(|(_, member)| has_choices(member)),
        Column::Tuple { items, .. } => items.iter().any(has_choices),
        Column::Option { .. } | Column::Union { .. } => true,
    }
}
