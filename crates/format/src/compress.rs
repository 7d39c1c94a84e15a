//! ROOT's compression records: their framing and codecs.
//!
//! A compressed object, basket or page is a sequence of records. Each has a header of 9 bytes (magic of two, method,
//! compressed and plain size as little-endian numbers of three bytes) and a payload that decompresses to less than
//! 16 MiB, so that larger things take several records.

mod codec;
mod compressor;
mod decompressor;
mod error;
mod record;
mod setting;

pub use codec::Codec;
pub(crate) use codec::COMPRESSION_FACTOR_MAX;
pub use compressor::Compressor;
pub use decompressor::Decompressor;
pub use error::{CompressError, CompressFault};
pub use record::{check_declared_size, working_bytes};
pub use setting::{InvalidSetting, Setting};

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests;
