//! Envelopes: located, joined where they were cut into several keys, decompressed, and verified (sections "Locators and
//! Envelope Links", "Compression Block" and "Envelopes").

use std::borrow::Cow;

use xxhash_rust::xxh3::xxh3_64;

use crate::compress::{check_declared_size, CompressError, Decompressor, COMPRESSION_FACTOR_MAX};
use crate::error::{FormatError, Result};
use crate::file::loaded_bytes::{DecodeError, LoadedBytes};

use super::reader::Reader;

/// Bytes in front of the payload of an envelope, and of the checksum behind it.
pub(super) const HEAD_SIZE: usize = 8;
pub(super) const CHECKSUM_SIZE: usize = 8;
/// Bytes of the place of a further key of a blob.
const KEY_OFFSET_SIZE: u64 = 8;
/// No envelope of a file that people have is near this.
const ENVELOPE_SIZE_MAX: u64 = 4 << 30;
/// A non-standard locator with a 64-bit size.
pub(super) const LARGE_LOCATOR: u32 = 1;

/// A range of bytes of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Locator {
    /// Where it begins.
    pub offset: u64,
    /// Its bytes, compressed.
    pub size: u64,
}

/// Where an envelope lies and how long it is after decompression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Bytes after decompression.
    pub plain_size: u64,
    /// Its compressed bytes.
    pub locator: Locator,
}

/// What an envelope holds; the numbers are those on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnvelopeKind {
    /// Fields and columns.
    Header = 1,
    /// Fields and columns that came later, and the groups of clusters.
    Footer = 2,
    /// Clusters and where their pages lie.
    PageList = 3,
}

impl EnvelopeKind {
    /// The name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Header => "header",
            Self::Footer => "footer",
            Self::PageList => "page list",
        }
    }
}

/// The bytes of an envelope that agree with its checksum.
#[derive(Debug, Clone)]
pub struct Envelope {
    bytes: Vec<u8>,
    /// Its checksum, by which others refer to it.
    pub checksum: u64,
}

impl Envelope {
    /// Head and payload, without the checksum. Positions in it count from the head.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.bytes.len() - CHECKSUM_SIZE]
    }

    /// A reader of the payload.
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
    // The type is the absolute value of the highest byte, the locator's own size that of the lowest two.
    let magnitude = size.unsigned_abs();
    let (kind, own_size) = (magnitude >> 24, u64::from(magnitude & 0xffff));
    if kind != LARGE_LOCATOR {
        return Err(FormatError::unsupported(format!("data whose place is given by a locator of type {kind}")));
    }
    let rest = own_size.checked_sub(4 + 16);
    let rest = rest.ok_or_else(|| FormatError::damaged(start, format!("a large locator of {own_size} bytes")))?;
    let size = reader.u64()?;
    let offset = reader.u64()?;
    reader.skip(rest)?;
    Ok(Locator { offset, size })
}

pub(super) fn read_link(reader: &mut Reader<'_>) -> Result<Link> {
    Ok(Link { plain_size: reader.u64()?, locator: read_locator(reader)? })
}

/// Reads an envelope, decompresses it and verifies its type, its length and its checksum.
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
        let message = format!("{} bytes cannot come from {size} stored ones", link.plain_size);
        return Err(named(FormatError::damaged(offset, message)));
    }
    let bytes = if link.plain_size == size {
        stored.into_owned()
    } else {
        let failed = |error: CompressError| named(FormatError::damaged(offset, error.to_string()));
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
        return Err(FormatError::damaged((size - CHECKSUM_SIZE) as u64, "it does not agree with its checksum"));
    }
    if head & 0xffff != kind as u64 || head >> 16 != size as u64 {
        let (found_kind, found_size) = (head & 0xffff, head >> 16);
        let message = format!(
            "its head says type {found_kind} and {found_size} bytes, where type {} and {size} bytes are expected",
            kind as u64
        );
        return Err(FormatError::damaged(0, message));
    }
    Ok(Envelope { bytes, checksum })
}

/// The bytes of a blob, which lie in one piece unless they are more than a key may hold: then the first key holds as
/// many as fit and, at its end, the places of the others.
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
        let message = format!("{size} bytes cannot lie in keys of {max_key_size} bytes");
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

/// Keys that a blob is cut into.
fn keys_count(size: u64, max_key_size: u64) -> u64 {
    let count = size.div_ceil(max_key_size);
    let room_left = (max_key_size - size % max_key_size) % max_key_size;
    // The first key also lists the places of the others; where it has no room for them, there is one key more.
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
        // Keys of 40 bytes for 100: 24 and two places, 40, 36.
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
