//! The codecs of ROOT's compression records.

mod coder;
mod deflate;
mod lz4;
mod lzma;
mod zstd;

pub(crate) use coder::COMPRESSION_FACTOR_MAX;
use coder::{CodecFacts, Coder};

use super::fault::CompressFault;

/// One coder per codec, each created on first use.
#[derive(Default)]
pub(super) struct Coders([Option<Box<dyn Coder>>; Codec::ALL.len()]);

impl Coders {
    pub(super) fn of(&mut self, codec: Codec) -> &mut dyn Coder {
        self.0[codec as usize].get_or_insert_with(codec.facts().coder).as_mut()
    }

    /// Bytes of memory held by the compression contexts of all coders.
    pub(super) fn bytes(&self) -> usize {
        self.0.iter().flatten().map(|coder| coder.bytes()).sum()
    }
}

const NONE: CodecFacts = CodecFacts {
    name: "none",
    magic: None,
    method: 0,
    factor_max: 1,
    root_number: 0,
    default_level: Some(0),
    coder: || Box::new(Uncompressed),
    declared_bytes: |_| None,
    working_bytes: |_| 0,
    #[cfg(test)]
    payload: |plain| plain.to_vec(),
};

/// Placeholder coder for `Codec::None`. Never called, because no compression record has this codec.
struct Uncompressed;

impl Coder for Uncompressed {
    fn decompress(&mut self, _payload: &[u8], _out: &mut [u8]) -> Result<usize, CompressFault> {
        Ok(0)
    }
}

/// Define [`Codec`], the list of codecs and their constants from one table.
macro_rules! codecs {
    ($($(#[$doc:meta])* $codec:ident => $facts:expr,)*) => {
        /// Compression format of a record.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Codec {
            $($(#[$doc])* $codec,)*
        }

        impl Codec {
            /// All codecs.
            pub const ALL: &[Self] = &[$(Self::$codec),*];

            const fn facts(self) -> &'static CodecFacts {
                match self {
                    $(Self::$codec => const { &$facts },)*
                }
            }
        }
    };
}

codecs! {
    /// Uncompressed bytes, which are stored without a record.
    None => NONE,
    /// `ZL`: a zlib stream.
    Zlib => deflate::ZLIB,
    /// `XZ`: an xz container.
    Lzma => lzma::LZMA,
    /// `L4`: a checksum and an LZ4 block.
    Lz4 => lz4::LZ4,
    /// `ZS`: a zstd frame.
    Zstd => zstd::ZSTD,
    /// `CS`: a raw deflate stream, written by early versions of ROOT.
    OldCs => deflate::OLD_CS,
}

impl Codec {
    /// Name of the codec in reports and errors.
    ///
    /// ```
    /// use branchline_format::compress::Codec;
    ///
    /// assert_eq!(Codec::of_record(b"ZS\x01").map(Codec::name), Some("zstd"));
    /// ```
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// ROOT's ID of the codec (ROOT::RCompressionSetting::EAlgorithm).
    pub fn root_number(self) -> u8 {
        self.facts().root_number
    }

    /// The compression level that ROOT recommends; 0 for no compression, None if writing is not supported.
    pub fn default_level(self) -> Option<u8> {
        self.facts().default_level
    }

    /// The codec that the magic bytes of `record` identify; `None` if the magic bytes are unknown.
    pub fn of_record(record: &[u8]) -> Option<Self> {
        let magic = *record.first_chunk()?;
        Self::ALL.iter().copied().find(|codec| codec.magic() == Some(magic))
    }

    pub(super) fn magic(self) -> Option<[u8; 2]> {
        self.facts().magic
    }

    pub(super) fn method(self) -> u8 {
        self.facts().method
    }

    pub(super) fn factor_max(self) -> usize {
        self.facts().factor_max
    }

    /// The uncompressed size that the payload itself declares; None if the payload declares no size.
    pub(super) fn declared_bytes(self, payload: &[u8]) -> Option<u64> {
        (self.facts().declared_bytes)(payload)
    }

    /// Bytes of memory that decompressing a payload needs in addition to the decompressed bytes.
    pub(super) fn working_bytes(self, payload: &[u8]) -> u64 {
        (self.facts().working_bytes)(payload)
    }

    /// Compress `plain` with the codec's own library and return the payload.
    #[cfg(test)]
    pub(super) fn payload(self, plain: &[u8]) -> Vec<u8> {
        (self.facts().payload)(plain)
    }
}
