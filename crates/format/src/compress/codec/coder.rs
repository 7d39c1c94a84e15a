//! The definition of a codec: its name, IDs and functions.

use crate::compress::fault::CompressFault;

/// Upper bound of the compression factor of every codec. LZMA and zstd almost reach this factor for constant bytes.
pub(crate) const COMPRESSION_FACTOR_MAX: u64 = 40_000;

/// Definition of a codec: its name, IDs and functions.
pub(super) struct CodecFacts {
    pub(super) name: &'static str,
    /// The first two bytes of a record.
    pub(super) magic: Option<[u8; 2]>,
    /// The third byte of a record: the only method or format version that ROOT has ever written with this codec.
    pub(super) method: u8,
    /// Maximum number of uncompressed bytes per byte of payload.
    pub(super) factor_max: usize,
    /// ROOT's ID of the codec (ROOT::RCompressionSetting::EAlgorithm).
    pub(super) root_number: u8,
    /// The level that ROOT recommends (ROOT::RCompressionSetting::EDefaults); None if writing is not supported.
    pub(super) default_level: Option<u8>,
    pub(super) coder: fn() -> Box<dyn Coder>,
    /// Returns the uncompressed size that a payload itself declares, if any.
    pub(super) declared_bytes: fn(&[u8]) -> Option<u64>,
    /// Returns the number of bytes of memory that decompressing a payload needs in addition to the decompressed bytes.
    pub(super) working_bytes: fn(&[u8]) -> u64,
    /// Compresses bytes with the codec's own library, for tests.
    #[cfg(test)]
    pub(super) payload: fn(&[u8]) -> Vec<u8>,
}

/// Compresses and decompresses payloads of one codec, and keeps the library's contexts between calls.
pub(in crate::compress) trait Coder: Send + Sync {
    /// Decompresses a payload into `out`, which has the uncompressed size, and returns the number of bytes written.
    fn decompress(&mut self, payload: &[u8], out: &mut [u8]) -> Result<usize, CompressFault>;

    /// Writes a payload to the start of `room` and returns its size. None if compression fails or is not supported.
    fn compress(&mut self, _level: u8, _plain: &[u8], _room: &mut [u8]) -> Option<usize> {
        None
    }

    /// Bytes of memory held by the compression context.
    fn bytes(&self) -> usize {
        0
    }
}
