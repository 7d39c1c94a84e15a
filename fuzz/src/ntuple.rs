//! RNTuples made of payloads: the envelopes around them get the lengths and checksums that they must have, so that
//! wrong bytes reach what is behind those.

use std::sync::Arc;

use branchline_format::compress::Decompressor;
use branchline_format::error::Result;
use branchline_format::file::loaded_bytes::{DecodeError, LoadedBytes};
use branchline_format::ntuple::envelope::{read_envelope, Envelope, EnvelopeKind, Link, Locator};
use branchline_format::ntuple::footer::{read_footer, ClusterGroup, Footer};
use branchline_format::ntuple::page_list::{read_page_list, Cluster};
use branchline_format::ntuple::schema::{read_header, Schema};
use branchline_format::objects::Classes;
use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

/// A payload as an envelope of this kind.
pub fn envelope_bytes(kind: EnvelopeKind, payload: &[u8]) -> Vec<u8> {
    let size = payload.len() as u64 + 16;
    let mut bytes = (kind as u64 | size << 16).to_le_bytes().to_vec();
    bytes.extend_from_slice(payload);
    bytes.extend(xxh3_64(&bytes).to_le_bytes());
    bytes
}

fn envelope(kind: EnvelopeKind, payload: &[u8]) -> Envelope {
    let bytes = envelope_bytes(kind, payload);
    let size = bytes.len() as u64;
    let link = Link { plain_size: size, locator: Locator { offset: 0, size } };
    let loaded = LoadedBytes::whole(Bytes::from(bytes));
    match read_envelope(&loaded, &link, kind, 0, &mut Decompressor::new()) {
        Ok(envelope) => envelope,
        Err(error) => panic!("an envelope of {size} bytes is refused: {error:?}"),
    }
}

/// A payload that begins with the checksum of the header: that of a page list.
fn of_header(header: &Envelope, rest: &[u8]) -> Vec<u8> {
    [&header.checksum.to_le_bytes()[..], rest].concat()
}

/// Fields, columns, and groups of clusters, from the payload of a header and that of a footer behind its flags and the
/// header's checksum.
pub fn described(header: &[u8], footer: &[u8]) -> Result<(Schema, Vec<ClusterGroup>, u64)> {
    let header = envelope(EnvelopeKind::Header, header);
    let known = read_header(&header)?;
    // No feature flags are set: any that is ends the reading.
    let footer = [&[0; 8][..], &of_header(&header, footer)].concat();
    let Footer { schema, groups } = read_footer(&envelope(EnvelopeKind::Footer, &footer), &header, known)?;
    Ok((schema, groups, header.checksum))
}

/// The clusters of a group, from the payload of its page list behind the header's checksum.
pub fn clusters(header: &[u8], pages: &[u8], group: &ClusterGroup) -> Result<Vec<Cluster>> {
    let header = envelope(EnvelopeKind::Header, header);
    read_page_list(envelope(EnvelopeKind::PageList, &of_header(&header, pages)), group, header.checksum)
}

/// The classes of a file that describes none.
pub fn no_classes() -> Arc<Classes> {
    Arc::new(Classes::new(Arc::default()))
}

/// Whether the bytes that a decoder needs lie within the file.
pub fn is_within(error: &DecodeError, file_size: u64) -> bool {
    match error {
        DecodeError::MissingBytes { offset, size } => offset.checked_add(*size).is_some_and(|end| end <= file_size),
        DecodeError::Format(_) => true,
    }
}
