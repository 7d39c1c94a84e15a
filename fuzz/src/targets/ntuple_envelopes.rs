//! What describes an RNTuple. The first byte chooses: an anchor; an envelope as it lies in a file, in several keys and
//! compressed; or the payloads of header and footer, from which fields become branches.

use crate::columns::checked_len;
use crate::input::Input;
use crate::memory::bounded;
use crate::ntuple::{described, is_within, no_classes};
use branchline_format::compress::Decompressor;
use branchline_format::file::loaded_bytes::LoadedBytes;
use branchline_format::ntuple::anchor::read_anchor;
use branchline_format::ntuple::envelope::{read_envelope, EnvelopeKind, Link, Locator};
use branchline_format::ntuple::form::standalone_form;
use branchline_format::ntuple::names::branches;
use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of memory for a byte of a header: fields of forty bytes, and paths of names that are repeated.
const FACTOR: usize = 512;
/// Bytes in front of the fields of an anchor: byte count and version.
const ANCHOR_HEAD_BYTES: usize = 6;

pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    match input.byte() % 3 {
        0 => anchor(input.0),
        1 => framing(&mut input),
        _ => schema(&mut input, bytes.len()),
    }
}

fn anchor(bytes: &[u8]) {
    let fields = bytes.get(ANCHOR_HEAD_BYTES..).unwrap_or_default();
    let mut plain = bytes.to_vec();
    plain.extend(xxh3_64(fields).to_be_bytes());
    drop(read_anchor(&plain));
}

fn framing(input: &mut Input<'_>) {
    let (offset, size) = (u64::from(input.short()), u64::from(input.short()));
    let (plain_size, max_key_size) = (u64::from(input.short()), u64::from(input.short()));
    let kinds = [EnvelopeKind::Header, EnvelopeKind::Footer, EnvelopeKind::PageList];
    let kind = kinds[usize::from(input.byte()) % kinds.len()];
    let loaded = LoadedBytes::whole(Bytes::copy_from_slice(input.0));
    let link = Link { plain_size, locator: Locator { offset, size } };
    let mut decompressor = Decompressor::new();
    // The plain size has two bytes here.
    let read =
        bounded(usize::from(u16::MAX), 4, || read_envelope(&loaded, &link, kind, max_key_size, &mut decompressor));
    if let Err(need) = read {
        assert!(is_within(&need, loaded.file_size()), "{need:?}");
    }
}

fn schema(input: &mut Input<'_>, input_bytes: usize) {
    let (header, footer) = (input.part(), input.part());
    bounded(input_bytes, FACTOR, || {
        let Ok((schema, _, _)) = described(header, footer) else { return };
        let Ok(classes) = schema.classes(&no_classes()) else { return };
        let branches = branches(&schema);
        for (index, branch) in branches.iter().enumerate() {
            assert!(branch.parent.is_none_or(|parent| parent < index), "a parent comes before its children");
            if let Ok(form) = standalone_form(&schema, &classes, branch.field) {
                form.each_column(&mut |column| assert!(column < schema.columns.len()));
                assert_eq!(checked_len(&form.empty()), 0);
            }
        }
    });
}
