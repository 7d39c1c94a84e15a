//! ROOT's compression records: their framing and codecs.
//!
//! A compressed object, basket or page is a sequence of records. Each record has a 9-byte header and a payload. The
//! header has two magic bytes, the method, and the compressed and uncompressed sizes as 3-byte little-endian integers.
//! The payload decompresses to less than 16 MiB; larger data is split into several records.
//!
//! ```
//! use branchline_format::compress::{Codec, Compressor, Decompressor, Setting};
//!
//! let plain = [7; 1000];
//! let mut records = Vec::new();
//! assert!(Compressor::new().compress("zstd:5".parse::<Setting>()?, &plain, &mut records));
//! let mut again = [0; 1000];
//! assert_eq!(Decompressor::new().decompress_into(&records, &mut again)?, Codec::Zstd);
//! assert_eq!(again, plain);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod codec;
mod compressor;
mod decompressor;
mod error;
mod fault;
mod record;
mod setting;

pub use codec::Codec;
pub(crate) use codec::COMPRESSION_FACTOR_MAX;
pub use compressor::Compressor;
pub use decompressor::Decompressor;
pub use error::CompressError;
pub use fault::CompressFault;
pub use record::{check_declared_size, working_bytes};
pub use setting::{InvalidSetting, Setting, LEVEL_MAX};

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests;
