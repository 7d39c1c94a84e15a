//! Reading of envelopes: locating them, joining the keys of split blobs, decompression and verification (sections
//! "Locators and Envelope Links", "Compression Block" and "Envelopes").
//!
//! ```
//! use branchline_format::compress::Decompressor;
//! use branchline_format::file::loaded_bytes::LoadedBytes;
//! use branchline_format::ntuple::envelope::{read_envelope, EnvelopeKind, Locator};
//! use branchline_format::ntuple::schema::Schema;
//! use branchline_format::ntuple::write::schema::write_header;
//!
//! let written = write_header("events", "", &Schema::default())?;
//! let loaded = LoadedBytes::whole(written.plain.clone().into());
//! let link = written.link(Locator { offset: 0, size: loaded.file_size() });
//! let read = |kind| read_envelope(&loaded, &link, kind, 0, &mut Decompressor::default());
//! assert_eq!(read(EnvelopeKind::Header).unwrap().checksum, written.checksum);
//! assert!(read(EnvelopeKind::Footer).is_err(), "it is a header");
//! # Ok::<(), branchline_format::error::FormatError>(())
//! ```

use std::borrow::Cow;

use xxhash_rust::xxh3::xxh3_64;

use crate::compress::{check_declared_size, CompressError, Decompressor, COMPRESSION_FACTOR_MAX};
use crate::error::{FormatError, Result};
use crate::file::loaded_bytes::{DecodeError, LoadedBytes};

use super::reader::Reader;

/// Size of an envelope's header, which precedes the payload.
pub(super) const HEAD_SIZE: usize = 8;
/// Size of the checksum after the payload of an envelope.
pub(super) const CHECKSUM_SIZE: usize = 8;
/// Size of one offset in the first key of a split blob. Each offset locates a further key.
const KEY_OFFSET_SIZE: u64 = 8;
/// Maximum size of an envelope. Envelopes of real files are far smaller.
const ENVELOPE_SIZE_MAX: u64 = 4 << 30;
/// Type code of the non-standard locator with a 64-bit size.
pub(super) const LARGE_LOCATOR: u32 = 1;

/// A byte range of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Locator {
    /// Offset in the file.
    pub offset: u64,
    /// Size in the file (compressed).
    pub size: u64,
}

/// Location and uncompressed size of an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Uncompressed size of the envelope.
    pub plain_size: u64,
    /// Location of the compressed bytes.
    pub locator: Locator,
}

/// Type of an envelope, with its code in the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnvelopeKind {
    /// Contains the fields and columns.
    Header = 1,
    /// Contains extensions of the schema, and the cluster groups.
    Footer = 2,
    /// Contains the clusters and the page locations.
    PageList = 3,
}

impl EnvelopeKind {
    /// Human-readable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Header => "header",
            Self::Footer => "footer",
            Self::PageList => "page list",
        }
    }
}

/// An envelope with a verified checksum.
#[derive(Debug, Clone)]
pub struct Envelope {
    bytes: Vec<u8>,
    /// The checksum, which other envelopes store as a reference to this envelope.
    pub checksum: u64,
}

impl Envelope {
    /// Header and payload, without the checksum. Positions are relative to the start of the header.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.bytes.len() - CHECKSUM_SIZE]
    }

    /// Create a reader of the payload.
    pub(super) fn payload(&self) -> Reader<'_> {
        Reader::at(self.bytes(), HEAD_SIZE)
    }
}

pub(super) fn read_locator(reader: &mut Reader<'_>) -> Result<Locator> {
    let start = reader.position() as u64;
    let size = reader.i32()?;
    if let Ok(size) = u64::try_from(size) {
        return Ok(Locator { offset: reader.u64()?, size });
    }
    // The high byte of the absolute value is the locator type, the low two bytes are the size of the locator itself.
    let magnitude = size.unsigned_abs();
    let (kind, own_size) = (magnitude >> 24, u64::from(magnitude & 0xffff));
    if kind != LARGE_LOCATOR {
        return Err(FormatError::unsupported(format!("locators of type {kind} are not supported")));
    }
    let rest = own_size.checked_sub(4 + 16);
    let rest = rest
        .ok_or_else(|| FormatError::damaged(start, format!("invalid size of {own_size} bytes of a large locator")))?;
    let size = reader.u64()?;
    let offset = reader.u64()?;
    reader.skip(rest)?;
    Ok(Locator { offset, size })
}

pub(super) fn read_link(reader: &mut Reader<'_>) -> Result<Link> {
    Ok(Link { plain_size: reader.u64()?, locator: read_locator(reader)? })
}

/// Read and decompress an envelope, and verify its type, length and checksum.
pub fn read_envelope(
    loaded: &LoadedBytes,
    link: &Link,
    kind: EnvelopeKind,
    max_key_size: u64,
    decompressor: &mut Decompressor,
) -> std::result::Result<Envelope, DecodeError> {
    let named = |error: FormatError| DecodeError::from(error.in_object(format!("{} envelope", kind.name())));
    let Locator { offset, size } = link.locator;
    let get = |offset, size| loaded.get(offset, size);
    let stored = blob(get, link.locator, max_key_size, loaded.file_size()).map_err(|error| match error {
        DecodeError::Format(error) => named(error),
        bytes @ DecodeError::MissingBytes { .. } => bytes,
    })?;
    let most = size.saturating_mul(COMPRESSION_FACTOR_MAX).min(ENVELOPE_SIZE_MAX);
    if link.plain_size > most {
        let message = format!("{} bytes cannot be the plain size of {size} stored bytes", link.plain_size);
        return Err(named(FormatError::damaged(offset, message)));
    }
    let bytes = if link.plain_size == size {
        stored.into_owned()
    } else {
        let failed = |error: CompressError| named(FormatError::not_decompressed(offset, error));
        check_declared_size(&stored, link.plain_size as usize).map_err(failed)?;
        let mut plain = vec![0; link.plain_size as usize];
        decompressor.decompress_into(&stored, &mut plain).map_err(failed)?;
        plain
    };
    verified(bytes, kind).map_err(named)
}

fn verified(bytes: Vec<u8>, kind: EnvelopeKind) -> Result<Envelope> {
    let size = bytes.len();
    if size < HEAD_SIZE + CHECKSUM_SIZE {
        return Err(FormatError::damaged(0, format!("{size} bytes are too few for an envelope")));
    }
    let head = Reader::new(&bytes).u64()?;
    let checksum = Reader::at(&bytes, size - CHECKSUM_SIZE).u64()?;
    if xxh3_64(&bytes[..size - CHECKSUM_SIZE]) != checksum {
        return Err(FormatError::damaged((size - CHECKSUM_SIZE) as u64, "checksum mismatch"));
    }
    if head & 0xffff != kind as u64 || head >> 16 != size as u64 {
        let (found_kind, found_size) = (head & 0xffff, head >> 16);
        let message = format!(
            "its header has type {found_kind} and {found_size} bytes, expected type {} and {size} bytes",
            kind as u64
        );
        return Err(FormatError::damaged(0, message));
    }
    Ok(Envelope { bytes, checksum })
}

/// Read a blob. A blob is contiguous unless it exceeds the maximum key size. The first key of a larger blob contains as
/// many bytes as fit, followed by the offsets of the remaining keys.
pub fn blob<'a>(
    get: impl Fn(u64, u64) -> std::result::Result<&'a [u8], DecodeError>,
    locator: Locator,
    max_key_size: u64,
    file_size: u64,
) -> std::result::Result<Cow<'a, [u8]>, DecodeError> {
    let Locator { offset, size } = locator;
    if max_key_size == 0 || size <= max_key_size {
        return get(offset, size).map(Cow::Borrowed);
    }
    let offsets_size = KEY_OFFSET_SIZE.saturating_mul(keys_count(size, max_key_size) - 1);
    let Some(in_first) = max_key_size.checked_sub(offsets_size).filter(|_| size <= file_size) else {
        let message = format!("{size} bytes cannot be split into keys of {max_key_size} bytes");
        return Err(FormatError::damaged(offset, message).into());
    };
    let (first, places) = get(offset, max_key_size)?.split_at(in_first as usize);
    let mut places = Reader::new(places);
    let mut parts = vec![first];
    let mut left = size - in_first;
    while left > 0 {
        let place = places.u64()?;
        let part = get(place, left.min(max_key_size))?;
        left -= part.len() as u64;
        parts.push(part);
    }
    Ok(Cow::Owned(parts.concat()))
}

/// Number of keys that a blob is split into.
fn keys_count(size: u64, max_key_size: u64) -> u64 {
    let count = size.div_ceil(max_key_size);
    let room_left = (max_key_size - size % max_key_size) % max_key_size;
    // The first key also contains the offsets of the remaining keys. If the offsets do not fit, one more key is needed.
    count + u64::from(KEY_OFFSET_SIZE.saturating_mul(count - 1) > room_left)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(kind: u64, payload: &[u8]) -> Vec<u8> {
        let size = (payload.len() + 16) as u64;
        let mut bytes = (kind | size << 16).to_le_bytes().to_vec();
        bytes.extend(payload);
        bytes.extend(xxh3_64(&bytes).to_le_bytes());
        bytes
    }

    #[test]
    fn an_envelope_is_verified() {
        let bytes = envelope(1, b"payload");
        assert_eq!(verified(bytes.clone(), EnvelopeKind::Header).unwrap().bytes()[8..], *b"payload");
        assert!(verified(bytes.clone(), EnvelopeKind::Footer).is_err());
        for bit in 0..8 * bytes.len() {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(verified(flipped, EnvelopeKind::Header).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn locators_are_short_or_large() {
        let mut short = 5i32.to_le_bytes().to_vec();
        short.extend(77u64.to_le_bytes());
        assert_eq!(read_locator(&mut Reader::new(&short)).unwrap(), Locator { offset: 77, size: 5 });
        let mut large = (-((1i32 << 24) + 20)).to_le_bytes().to_vec();
        large.extend((5u64 << 32).to_le_bytes());
        large.extend(77u64.to_le_bytes());
        assert_eq!(read_locator(&mut Reader::new(&large)).unwrap(), Locator { offset: 77, size: 5 << 32 });
        let object = (-((2i32 << 24) + 20)).to_le_bytes();
        let error = read_locator(&mut Reader::new(&object)).unwrap_err();
        assert!(error.message.contains("type 2"), "{error}");
    }

    #[test]
    fn a_blob_of_several_keys_is_joined() {
        // A blob of 100 bytes in keys of at most 40 bytes: 24 bytes and two offsets, then 40 bytes, then 36 bytes.
        let blob_bytes: Vec<u8> = (0..100).collect();
        let mut file = vec![0; 500];
        file[100..124].copy_from_slice(&blob_bytes[..24]);
        file[124..132].copy_from_slice(&300u64.to_le_bytes());
        file[132..140].copy_from_slice(&200u64.to_le_bytes());
        file[300..340].copy_from_slice(&blob_bytes[24..64]);
        file[200..236].copy_from_slice(&blob_bytes[64..]);
        let loaded = LoadedBytes::whole(file.into());
        let joined =
            blob(|offset, size| loaded.get(offset, size), Locator { offset: 100, size: 100 }, 40, 500).unwrap();
        assert_eq!(joined, blob_bytes);
    }

    #[test]
    fn impossible_blobs_are_refused() {
        let loaded = LoadedBytes::whole(vec![0xff; 500].into());
        for max_key_size in [1, 2, 7, 8, 9, 40] {
            let read =
                blob(|offset, size| loaded.get(offset, size), Locator { offset: 0, size: 400 }, max_key_size, 500);
            assert!(matches!(read, Err(DecodeError::Format(_))), "{max_key_size}");
        }
        let huge = Locator { offset: 0, size: u64::MAX };
        assert!(blob(|offset, size| loaded.get(offset, size), huge, 3, 500).is_err());
    }
}
