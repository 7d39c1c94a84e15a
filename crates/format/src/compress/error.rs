//! Errors in compression records.

use super::fault::CompressFault;
use super::Codec;

/// Error for compression records that cannot be decompressed. A retry helps only if the bytes were damaged in transit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("compression record ({}) at byte {offset}: {fault}", .codec.map_or("unknown", Codec::name))]
pub struct CompressError {
    /// Offset of the record in the sequence of records.
    pub offset: usize,
    /// The codec of the record, if known. If the fault comes after the last record, the codec of the first record.
    pub codec: Option<Codec>,
    /// The problem.
    pub fault: CompressFault,
}
