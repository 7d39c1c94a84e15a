//! LZ4 blocks (`L4`). Each block is preceded by the big-endian xxh64 checksum of its bytes.

use lz4::block::CompressionMode;
use xxhash_rust::xxh64::xxh64;

use super::coder::{CodecFacts, Coder};
use crate::compress::fault::CompressFault;

pub(super) const LZ4: CodecFacts = CodecFacts {
    name: "lz4",
    magic: Some(*b"L4"),
    method: 1,
    // In a match length, each additional byte adds at most 255.
    factor_max: 255,
    root_number: 4,
    default_level: Some(4),
    coder: || Box::new(Lz4),
    declared_bytes: |_| None,
    working_bytes: |_| 0,
    #[cfg(test)]
    payload: tests::payload,
};

const CHECKSUM_BYTES: usize = 8;
/// Minimum compression level at which ROOT uses the high-compression mode of LZ4.
const HIGH_COMPRESSION_LEVEL: u8 = 4;

struct Lz4;

impl Coder for Lz4 {
    fn decompress(&mut self, payload: &[u8], out: &mut [u8]) -> Result<usize, CompressFault> {
        let Some((stored, block)) = payload.split_first_chunk::<CHECKSUM_BYTES>() else {
            return Err(CompressFault::corrupt("its checksum is incomplete"));
        };
        let stored = u64::from_be_bytes(*stored);
        let computed = xxh64(block, 0);
        if stored != computed {
            return Err(CompressFault::Checksum { stored, computed });
        }
        // The uncompressed size of a record has 24 bits, so this conversion does not fail.
        let room = i32::try_from(out.len()).map_err(CompressFault::corrupt)?;
        lz4::block::decompress_to_buffer(block, Some(room), out)
            .map_err(|_| CompressFault::corrupt("the block is damaged or exceeds the plain size"))
    }

    fn compress(&mut self, level: u8, plain: &[u8], room: &mut [u8]) -> Option<usize> {
        let mode = (level >= HIGH_COMPRESSION_LEVEL).then(|| CompressionMode::HIGHCOMPRESSION(i32::from(level)));
        let (checksum, block) = room.split_first_chunk_mut::<CHECKSUM_BYTES>()?;
        let size = lz4::block::compress_to_buffer(plain, mode, false, block).ok()?;
        *checksum = xxh64(block.get(..size)?, 0).to_be_bytes();
        Some(CHECKSUM_BYTES + size)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    pub(super) fn payload(plain: &[u8]) -> Vec<u8> {
        let block = lz4::block::compress(plain, None, false).unwrap();
        [&xxh64(&block, 0).to_be_bytes()[..], &block].concat()
    }
}
