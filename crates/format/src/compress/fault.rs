//! Problems in compression records.

use std::fmt;

/// A problem in a record or after the last record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompressFault {
    /// The bytes end inside a record's header.
    #[error("the header is cut off after {count} bytes")]
    ShortHeader {
        /// Number of remaining bytes.
        count: usize,
    },
    /// The two magic bytes do not match any codec.
    #[error("it starts with \"{}\", which is not the magic of a known codec", .0.escape_ascii())]
    UnknownMagic([u8; 2]),
    /// The magic bytes are known, but the method or format version after them is unknown.
    #[error("unknown compression method {0}")]
    UnknownMethod(u8),
    /// The bytes end inside a record's payload.
    #[error("the payload is cut off after {payload_bytes} of {wanted_bytes} bytes")]
    Truncated {
        /// The payload's length according to the header.
        wanted_bytes: usize,
        /// Number of remaining bytes.
        payload_bytes: usize,
    },
    /// The header declares more uncompressed bytes than the result still lacks.
    #[error("it declares {plain_bytes} plain bytes, but only {room_bytes} are expected")]
    TooLong {
        /// Uncompressed size according to the header.
        plain_bytes: usize,
        /// Number of bytes that the result still lacks.
        room_bytes: usize,
    },
    /// The header declares more uncompressed bytes than the codec can produce from the payload.
    #[error("it declares {promised_bytes} plain bytes, more than {payload_bytes} compressed bytes can yield")]
    Implausible {
        /// Uncompressed size according to the header.
        promised_bytes: usize,
        /// Size of the payload.
        payload_bytes: usize,
    },
    /// The checksum of the payload or of the uncompressed bytes does not match.
    #[error("checksum mismatch: stored {stored:016x}, computed {computed:016x}")]
    Checksum {
        /// The checksum in the record.
        stored: u64,
        /// The checksum computed from the bytes.
        computed: u64,
    },
    /// The payload's decompressed size differs from the size in the header.
    #[error("it decompresses to {plain_bytes} bytes, but declares {promised_bytes}")]
    WrongLength {
        /// Actual uncompressed size.
        plain_bytes: usize,
        /// Uncompressed size according to the header.
        promised_bytes: usize,
    },
    /// The codec's library rejects the payload, for the reason in this string.
    #[error("it cannot be decompressed: {0}")]
    Corrupt(String),
    /// The records are intact, but decompress to fewer bytes than expected.
    #[error("the records end after {plain_bytes} of {wanted_bytes} plain bytes")]
    EndsEarly {
        /// Number of decompressed bytes.
        plain_bytes: usize,
        /// Number of expected bytes.
        wanted_bytes: usize,
    },
    /// More bytes follow after the result is complete.
    #[error("{count} trailing bytes after the last record")]
    TrailingBytes {
        /// Number of trailing bytes.
        count: usize,
    },
}

impl CompressFault {
    pub(super) fn corrupt(reason: impl fmt::Display) -> Self {
        CompressFault::Corrupt(reason.to_string())
    }
}
