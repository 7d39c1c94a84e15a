//! The pages of an RNTuple: the payloads of header, footer and page list, each behind its length, and the pages, whose
//! places count from behind those. What is decoded at once has to equal what is decoded in two parts.

use std::ops::Range;

use crate::columns::checked_len;
use crate::input::Input;
use crate::memory::bounded;
use crate::ntuple::{clusters, described, no_classes};
use branchline_format::column::Column;
use branchline_format::compress::Decompressor;
use branchline_format::error::{FormatError, Result};
use branchline_format::ntuple::cluster::{FieldCluster, FieldReader, Scratch, Stored, Unpacker};
use branchline_format::ntuple::form::{standalone_form, Form};
use branchline_format::ntuple::names::branches;
use branchline_format::ntuple::page_list::Cluster;
use branchline_format::ntuple::schema::Schema;
use bytes::Bytes;

/// Bytes of memory for a byte of pages and what describes them: zeros from before a column was added are up to 1024
/// times the file, and are copied from one level of a field to the next.
const FACTOR: usize = 8 * 1024;
/// The most branches that are read of one input.
const BRANCHES_MAX: usize = 32;
/// Splits are tried of clusters with no more entries than this.
const ENTRIES_MAX: u64 = 1 << 16;

pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let (header, footer, pages) = (input.part(), input.part(), input.part());
    let Ok((schema, groups, _)) = described(header, footer) else { return };
    let Ok(classes) = schema.classes(&no_classes()) else { return };
    let file = Bytes::copy_from_slice(input.0);
    for group in groups.iter().take(2) {
        for cluster in clusters(header, pages, group).unwrap_or_default().iter().take(2) {
            for branch in branches(&schema).iter().take(BRANCHES_MAX) {
                if let Ok(form) = standalone_form(&schema, &classes, branch.field) {
                    bounded(bytes.len(), FACTOR, || check(&schema, &form, cluster, &file));
                }
            }
        }
    }
}

fn check(schema: &Schema, form: &Form, cluster: &Cluster, file: &Bytes) {
    let Ok(pages) = FieldCluster::new(form, cluster) else { return };
    let read = |entries: Range<u64>| decoded(schema, form, &pages, file, &entries);
    let end = cluster.entries_count();
    let Ok(whole) = read(0..end) else { return };
    assert_eq!(checked_len(&whole) as u64, end);
    if end <= ENTRIES_MAX {
        let middle = end / 3;
        let mut parts = read(0..middle).expect("a part of what can be decoded");
        let rest = read(middle..end).expect("the other part of what can be decoded");
        parts.append(rest).expect("no more classes than in the whole");
        assert_eq!(parts, whole);
    }
}

fn decoded(schema: &Schema, form: &Form, cluster: &FieldCluster, file: &Bytes, entries: &Range<u64>) -> Result<Column> {
    let mut decompressor = Decompressor::new();
    let mut decompress = |from: &[u8], to: &mut [u8]| decompressor.decompress_into(from, to);
    let mut scratch = Scratch::default();
    let mut unpacker = Unpacker::new(&mut decompress, &mut scratch);
    let mut stored = Stored::new(file.len() as u64, 0);
    loop {
        let missing = FieldReader { schema, form, cluster, stored: &stored }.missing(entries, &mut unpacker)?;
        if missing.is_empty() {
            return FieldReader { schema, form, cluster, stored: &stored }.decode(entries, &mut unpacker);
        }
        for place in missing {
            let range = place.offset as usize..(place.offset + place.size) as usize;
            let had = stored.part(place.offset).map_or(0, Bytes::len);
            assert!(had < range.len() || range.is_empty(), "what is there is not missing");
            if range.is_empty() {
                return Err(FormatError::damaged(place.offset, "a page of no bytes"));
            }
            stored.add(place.offset, file.slice(range));
        }
    }
}
