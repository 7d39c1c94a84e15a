//! A basket of a layout that the first bytes choose: as a record, or as it comes embedded in a tree. What is decoded at
//! once has to equal what is decoded in two parts, and what is decoded in place.

#![no_main]

use std::ops::Range;
use std::sync::Arc;

use branchline_format::basket::{decode_run_into, BasketRecord, Plain};
use branchline_format::column::Column;
use branchline_format::compress::Decompressor;
use branchline_format::cursor::Cursor;
use branchline_format::decode::{decode, Counts};
use branchline_format::layout::Layout;
use branchline_format::tree::embedded::{read_basket_head, EmbeddedBasket};
use branchline_fuzz::columns::checked_len;
use branchline_fuzz::input::Input;
use branchline_fuzz::layouts;
use branchline_fuzz::memory::bounded;
use libfuzzer_sys::fuzz_target;

/// Bytes of memory for a plain byte of a basket: offsets of eight bytes for entries of one, on several levels, in
/// buffers that grow to twice their size.
const FACTOR: usize = 64;

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let layout = layouts::read(&mut input);
    let is_embedded = input.byte() % 2 == 1;
    let split = usize::from(input.byte());
    let counts = counts(&layout, input.part());
    if is_embedded {
        let basket = embedded(&mut input);
        check(&layout, &Plain::embedded(&basket), counts.as_ref(), split);
    } else {
        check_record(&layout, input.0, counts.as_ref(), split);
    }
});

fn check_record(layout: &Layout, bytes: &[u8], counts: Option<&Counts>, split: usize) {
    let Ok((_, head)) = read_basket_head(&mut Cursor::new(bytes)) else { return };
    let Ok(record) = BasketRecord::parse(bytes, head.entries_count as u64) else { return };
    let mut room = Vec::new();
    let Ok(plain) = record.decompress(&mut Decompressor::new(), &mut room) else { return };
    let plain = record.plain(plain);
    let whole = check(layout, &plain, counts, split);
    if let (Some(whole), Some(elements_count)) = (whole, record.run_elements_count(layout)) {
        check_in_place(layout, &plain, &whole, elements_count);
    }
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
        Layout::Arrays { .. } => {
            // Two elements in each entry.
            let ends = (0..=bytes.len() / 2).map(|entry| 2 * entry as i64).collect();
            Some(Counts::Elements(ends, bytes.iter().map(number).collect()))
        }
        _ => None,
    }
}

fn embedded(input: &mut Input<'_>) -> EmbeddedBasket {
    let entries_count = usize::from(input.byte());
    let has_offsets = input.byte() % 2 == 1;
    let offsets: Vec<u32> = (0..=entries_count).map(|_| u32::from(input.short())).collect();
    let data = Arc::new(input.0.to_vec());
    EmbeddedBasket { has_data: true, entries_count, data, offsets: has_offsets.then_some(offsets) }
}

fn check(layout: &Layout, plain: &Plain<'_>, counts: Option<&Counts>, split: usize) -> Option<Column> {
    let end = plain.entries_count;
    let plain_bytes = plain.data.len() + 4 * plain.bounds().ok().flatten().map_or(0, |bounds| bounds.len());
    let part = |entries: Range<usize>| bounded(plain_bytes, FACTOR, || decode(layout, plain, entries, counts));
    let whole = part(0..end).ok()?;
    assert_eq!(checked_len(&whole), end);
    let middle = split.min(end);
    let mut parts = part(0..middle).expect("a part of what can be decoded");
    parts.append(part(middle..end).expect("the other part of what can be decoded"));
    assert_eq!(parts, whole);
    Some(whole)
}

fn check_in_place(layout: &Layout, plain: &Plain<'_>, whole: &Column, elements_count: usize) {
    let Layout::Run { scalar, dimensions, header, .. } = layout else { return };
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
