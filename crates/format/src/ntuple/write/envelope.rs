//! Encoding of envelopes and of the links to envelopes (sections "Envelopes" and "Locators and Envelope Links").
//!
//! ```
//! use branchline_format::compress::{Compressor, Setting};
//! use branchline_format::ntuple::schema::Schema;
//! use branchline_format::ntuple::write::schema::write_header;
//!
//! let envelope = write_header("events", "", &Schema::default())?;
//! let stored = envelope.stored(Setting::NONE, &mut Compressor::default());
//! assert_eq!(stored, envelope.plain);
//! # Ok::<(), branchline_format::error::FormatError>(())
//! ```

use xxhash_rust::xxh3::xxh3_64;

use crate::compress::{Compressor, Setting};

use super::super::envelope::{EnvelopeKind, Link, Locator, CHECKSUM_SIZE, HEAD_SIZE, LARGE_LOCATOR};
use super::wire::Wire;

/// Size of a large locator with its header, size and offset.
const LARGE_LOCATOR_SIZE: i32 = 4 + 8 + 8;

/// An envelope that is ready to be written.
#[derive(Debug, Clone)]
pub struct NewEnvelope {
    /// The uncompressed bytes, including header and checksum.
    pub plain: Vec<u8>,
    /// The checksum, which other envelopes store as a reference to this envelope.
    pub checksum: u64,
}

impl NewEnvelope {
    /// Create an envelope by adding a header and a checksum to a payload.
    pub(super) fn new(kind: EnvelopeKind, payload: &Wire) -> Self {
        let size = (HEAD_SIZE + payload.bytes.len() + CHECKSUM_SIZE) as u64;
        let mut plain = Vec::with_capacity(size as usize);
        plain.extend_from_slice(&(kind as u64 | size << 16).to_le_bytes());
        plain.extend_from_slice(&payload.bytes);
        let checksum = xxh3_64(&plain);
        plain.extend_from_slice(&checksum.to_le_bytes());
        Self { plain, checksum }
    }

    /// The bytes to store in the file: compressed, unless compression does not make them smaller.
    pub fn stored(&self, setting: Setting, compressor: &mut Compressor) -> Vec<u8> {
        let mut stored = Vec::new();
        match compressor.compress(setting, &self.plain, &mut stored) {
            true => stored,
            false => self.plain.clone(),
        }
    }

    /// The link to the envelope, whose stored bytes are at `locator`.
    pub fn link(&self, locator: Locator) -> Link {
        Link { plain_size: self.plain.len() as u64, locator }
    }
}

pub(super) fn push_link(wire: &mut Wire, link: &Link) {
    wire.u64(link.plain_size);
    push_locator(wire, link.locator);
}

pub(super) fn push_locator(wire: &mut Wire, locator: Locator) {
    match i32::try_from(locator.size) {
        Ok(size) => wire.i32(size),
        Err(_) => {
            wire.i32(-((LARGE_LOCATOR as i32) << 24 | LARGE_LOCATOR_SIZE));
            wire.u64(locator.size);
        }
    }
    wire.u64(locator.offset);
}

#[cfg(test)]
mod tests {
    use super::super::super::envelope::read_locator;
    use super::super::super::reader::Reader;
    use super::*;

    #[test]
    fn locators_are_read_back() {
        for size in [0, 5, i32::MAX as u64, 1 << 31, 1 << 40] {
            let mut wire = Wire::default();
            push_locator(&mut wire, Locator { offset: 1 << 41, size });
            let mut reader = Reader::new(&wire.bytes);
            assert_eq!(read_locator(&mut reader).unwrap(), Locator { offset: 1 << 41, size });
            assert_eq!(reader.remaining(), 0);
        }
    }
}
