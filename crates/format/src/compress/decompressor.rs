//! Decompression of ROOT's compression records.

use super::codec::Coders;
use super::record::walk;
use super::{Codec, CompressError, CompressFault};

/// Decompression contexts of all codecs, created on first use and then reused. Use one `Decompressor` per thread.
#[derive(Default)]
pub struct Decompressor {
    coders: Coders,
}

impl Decompressor {
    /// Create a decompressor without any contexts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Decompress a sequence of records into `out` and return the codec of the first record. The size of `out` must be
    /// the total uncompressed size.
    ///
    /// The records must end exactly when `out` is full. No known writer appends other bytes, so trailing bytes mean
    /// that a declared size is wrong. (The checksum after a page of an RNTuple is not part of its records.)
    ///
    /// Verifies the checksums of zlib (adler32), lz4 (xxh64) and xz. Never allocates memory based on sizes in the
    /// bytes. After an error, the contents of `out` are unspecified.
    pub fn decompress_into(&mut self, records: &[u8], out: &mut [u8]) -> Result<Codec, CompressError> {
        walk(records, out.len(), |record, place| self.decompress_payload(record.codec, record.payload, &mut out[place]))
    }

    fn decompress_payload(&mut self, codec: Codec, payload: &[u8], out: &mut [u8]) -> Result<(), CompressFault> {
        let plain_bytes = self.coders.of(codec).decompress(payload, out)?;
        if plain_bytes == out.len() {
            Ok(())
        } else {
            Err(CompressFault::WrongLength { plain_bytes, promised_bytes: out.len() })
        }
    }
}
