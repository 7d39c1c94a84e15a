//! Errors in compression records.

use std::fmt;

use super::Codec;

/// A sequence of compression records that cannot be decompressed. A retry helps only if the bytes were damaged on their
/// way here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompressError {
    /// Where the record starts, from the start of the sequence.
    pub offset: usize,
    /// The codec of the record (of the first one, when the fault is behind the last), if it is known.
    pub codec: Option<Codec>,
    /// What is wrong.
    pub fault: CompressFault,
}

/// What is wrong with one record, or behind the last one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompressFault {
    /// The bytes end inside a record's header.
    ShortHeader {
        /// Bytes that are there.
        count: usize,
    },
    /// No codec has this magic.
    UnknownMagic([u8; 2]),
    /// The magic is known, but not the method or format version that follows it.
    UnknownMethod(u8),
    /// The bytes end inside a record's payload.
    Truncated {
        /// The payload's length by the header.
        wanted_bytes: usize,
        /// Bytes that are there.
        payload_bytes: usize,
    },
    /// The header promises more plain bytes than there is room left for.
    TooLong {
        /// Plain bytes by the header.
        plain_bytes: usize,
        /// Plain bytes still missing in the whole.
        room_bytes: usize,
    },
    /// The header promises more plain bytes than the codec can make of the payload.
    Implausible {
        /// Plain bytes by the header.
        promised_bytes: usize,
        /// Compressed bytes.
        payload_bytes: usize,
    },
    /// The checksum of an lz4 block differs.
    Checksum {
        /// In the record.
        stored: u64,
        /// Of the block as it is.
        computed: u64,
    },
    /// The payload decompresses well, but to a length that the header does not promise.
    WrongLength {
        /// Plain bytes that came out.
        plain_bytes: usize,
        /// Plain bytes by the header.
        promised_bytes: usize,
    },
    /// The codec's library refuses the payload, for this reason.
    Corrupt(String),
    /// All records are decompressed, but give less than the whole.
    EndsEarly {
        /// Plain bytes that came out.
        plain_bytes: usize,
        /// Plain bytes of the whole.
        wanted_bytes: usize,
    },
    /// The whole is decompressed, but more bytes follow.
    TrailingBytes {
        /// How many.
        count: usize,
    },
}

impl CompressFault {
    pub(super) fn corrupt(reason: impl fmt::Display) -> Self {
        CompressFault::Corrupt(reason.to_string())
    }
}

impl fmt::Display for CompressFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ShortHeader { count } => {
                write!(formatter, "only {count} bytes are left, too few for a record's header")
            }
            Self::UnknownMagic([first, second]) => write!(
                formatter,
                "it starts with \"{}{}\", which is no known compression",
                first.escape_ascii(),
                second.escape_ascii()
            ),
            Self::UnknownMethod(method) => {
                write!(formatter, "its method byte is {method}, which is unknown")
            }
            Self::Truncated { wanted_bytes, payload_bytes } => {
                write!(formatter, "it should have {wanted_bytes} compressed bytes, but only {payload_bytes} are there")
            }
            Self::TooLong { plain_bytes, room_bytes } => {
                write!(formatter, "it promises {plain_bytes} plain bytes, but only {room_bytes} are missing")
            }
            Self::Implausible { promised_bytes, payload_bytes } => {
                write!(
                    formatter,
                    "it promises {promised_bytes} plain bytes, which {payload_bytes} compressed bytes cannot give"
                )
            }
            Self::Checksum { stored, computed } => {
                write!(formatter, "its checksum is {computed:016x}, but {stored:016x} was written")
            }
            Self::WrongLength { plain_bytes, promised_bytes } => {
                write!(formatter, "it gives {plain_bytes} plain bytes, but promises {promised_bytes}")
            }
            Self::Corrupt(reason) => write!(formatter, "it cannot be decompressed: {reason}"),
            Self::EndsEarly { plain_bytes, wanted_bytes } => {
                write!(formatter, "the records end after {plain_bytes} of {wanted_bytes} plain bytes")
            }
            Self::TrailingBytes { count } => {
                write!(formatter, "{count} bytes follow after everything was decompressed")
            }
        }
    }
}

impl fmt::Display for CompressError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let codec = self.codec.map_or("unknown", Codec::name);
        write!(formatter, "compression record ({codec}) at byte {}: {}", self.offset, self.fault)
    }
}

impl std::error::Error for CompressError {}
