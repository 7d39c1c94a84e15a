//! The codecs that ROOT's compression records name.

/// An L4 payload starts with the xxh64 of the rest, big-endian.
pub(super) const LZ4_CHECKSUM_BYTES: usize = 8;

/// No codec makes more plain bytes of a compressed one (LZMA and zstd on constant bytes come near). See
/// [`Codec::factor_max`] for each of them.
pub(crate) const COMPRESSION_FACTOR_MAX: u64 = 40_000;

/// How a record is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Codec {
    /// Not compressed: such bytes are stored without a record.
    None,
    /// `ZL`: a zlib stream.
    Zlib,
    /// `XZ`: an xz container.
    Lzma,
    /// `L4`: a checksum and an LZ4 block.
    Lz4,
    /// `ZS`: a zstd frame.
    Zstd,
    /// `CS`: a raw deflate stream, written by ROOT in its first years.
    OldCs,
}

impl Codec {
    /// The name in reports and errors.
    pub fn name(self) -> &'static str {
        match self {
            Codec::None => "none",
            Codec::Zlib => "zlib",
            Codec::Lzma => "lzma",
            Codec::Lz4 => "lz4",
            Codec::Zstd => "zstd",
            Codec::OldCs => "old CS",
        }
    }

    /// The codec that the first two bytes of a record name; `None` if they name none.
    pub fn of_record(record: &[u8]) -> Option<Codec> {
        match record {
            [b'Z', b'L', ..] => Some(Codec::Zlib),
            [b'X', b'Z', ..] => Some(Codec::Lzma),
            [b'L', b'4', ..] => Some(Codec::Lz4),
            [b'Z', b'S', ..] => Some(Codec::Zstd),
            [b'C', b'S', ..] => Some(Codec::OldCs),
            _ => None,
        }
    }

    /// The first two bytes of a record.
    pub(super) fn magic(self) -> Option<[u8; 2]> {
        match self {
            Codec::None => None,
            Codec::Zlib => Some(*b"ZL"),
            Codec::Lzma => Some(*b"XZ"),
            Codec::Lz4 => Some(*b"L4"),
            Codec::Zstd => Some(*b"ZS"),
            Codec::OldCs => Some(*b"CS"),
        }
    }

    /// The third byte of a record: the only method or format version that ROOT ever wrote with this codec.
    pub(super) fn method(self) -> u8 {
        match self {
            Codec::Zlib | Codec::OldCs => 8,
            Codec::Lz4 | Codec::Zstd => 1,
            Codec::Lzma | Codec::None => 0,
        }
    }

    /// Upper limit of the plain bytes that one byte of a payload can give.
    pub(super) fn factor_max(self) -> usize {
        match self {
            Codec::None => 1,
            // A length of 258 in two bits.
            Codec::Zlib | Codec::OldCs => 1032,
            // Each byte that continues a length adds 255 to it.
            Codec::Lz4 => 255,
            // Lengths of 273 in a tenth of a bit.
            Codec::Lzma => COMPRESSION_FACTOR_MAX as usize,
            // Blocks of 128 KiB that are one byte again and again take four.
            Codec::Zstd => 32_768,
        }
    }
}
