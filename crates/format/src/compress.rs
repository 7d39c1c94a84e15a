//! ROOT's compression records: their framing, and the codecs behind them.
//!
//! A compressed object, basket or page is a sequence of records. Each has a header of 9 bytes (magic of two, method,
//! compressed and plain size as little-endian numbers of three bytes) and a payload that decompresses to less than
//! 16 MiB, so that larger things take several records.

mod compressor;
mod error;
mod setting;

use std::ops::Range;

use liblzma::stream::{Action, Status, Stream};
use xxhash_rust::xxh64::xxh64;

pub use compressor::Compressor;
pub use error::{CompressError, CompressFault};
pub use setting::{NoSetting, Setting};

const HEADER_BYTES: usize = 9;

/// An L4 payload starts with the xxh64 of the rest, big-endian.
const LZ4_CHECKSUM_BYTES: usize = 8;

/// Memory of the xz decoder, whose dictionary is sized by the file. The strongest setting of ROOT (xz preset 9)
/// takes 65 MiB; twice that leaves room for other writers and still bounds what a hostile file can claim.
const XZ_MEMORY_LIMIT_BYTES: u64 = 128 * 1024 * 1024;

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
    /// The name for people and reports.
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
    fn magic(self) -> Option<[u8; 2]> {
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
    fn method(self) -> u8 {
        match self {
            Codec::Zlib | Codec::OldCs => 8,
            Codec::Lz4 | Codec::Zstd => 1,
            Codec::Lzma | Codec::None => 0,
        }
    }

    /// Plain bytes that a byte of a payload can give at most.
    fn factor_max(self) -> usize {
        match self {
            Codec::None => 1,
            // A length of 258 in two bits.
            Codec::Zlib | Codec::OldCs => 1032,
            // Each byte that continues a length adds 255 to it.
            Codec::Lz4 => 255,
            // Lengths of 273 in a tenth of a bit.
            Codec::Lzma => 40_000,
            // Blocks of 128 KiB that are one byte again and again take four.
            Codec::Zstd => 32_768,
        }
    }
}

/// What decompressing a sequence of `records` to `plain_bytes` takes in memory beside these bytes, as far as their
/// headers tell.
pub fn working_bytes(records: &[u8], plain_bytes: usize) -> u64 {
    let mut most = 0;
    let visit = |record: &Record<'_>, _: Range<usize>| {
        if record.codec == Codec::Lzma {
            // Only as much of a dictionary is touched as there are bytes.
            most = most.max(xz_dictionary_bytes(record.payload).unwrap_or(0).min(record.plain_bytes as u64));
        }
        Ok(())
    };
    // What is wrong with them is told when they are decompressed.
    drop(walk(records, plain_bytes, visit));
    most
}

/// The dictionary that an xz stream asks for, in the header of its first block (sections 3.1 and 5.3.1 of its format).
fn xz_dictionary_bytes(payload: &[u8]) -> Option<u64> {
    const STREAM_HEADER_BYTES: usize = 12;
    const LZMA2: u8 = 0x21;
    let (size, flags) = (*payload.get(STREAM_HEADER_BYTES)?, *payload.get(STREAM_HEADER_BYTES + 1)?);
    let header = payload.get(STREAM_HEADER_BYTES..)?.get(..4 * (usize::from(size) + 1))?;
    let mut rest = header.get(2..)?;
    let number = |rest: &mut &[u8]| -> Option<()> {
        let length = rest.iter().position(|byte| byte & 0x80 == 0)? + 1;
        *rest = rest.get(length..)?;
        Some(())
    };
    for given in [0x40, 0x80] {
        if flags & given != 0 {
            number(&mut rest)?; // compressed and plain size
        }
    }
    for _filter in 0..=(flags & 3) {
        let id = *rest.first()?;
        number(&mut rest)?;
        let properties_size = usize::from(*rest.first()?);
        let properties = rest.get(1..)?.get(..properties_size)?;
        if id == LZMA2 {
            let bits = u32::from(*properties.first()?);
            return Some(u64::from(2 | (bits & 1)) << (bits.min(40) / 2 + 11));
        }
        rest = rest.get(1 + properties_size..)?;
    }
    None
}

/// The contexts of all codecs, made when first needed and used again: one `Decompressor` per thread.
#[derive(Default)]
pub struct Decompressor {
    deflate: Option<libdeflater::Decompressor>,
    zstd: Option<zstd_safe::DCtx<'static>>,
}

impl Decompressor {
    /// No context is made yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Decompresses the sequence of `records` into `out`, which has exactly the plain size of the whole, and
    /// returns the codec of the first record.
    ///
    /// The records have to end where `out` is full. No writer is known to leave bytes behind them, so more bytes mean
    /// a wrong length somewhere (the checksum behind a page of an RNTuple is not part of its records).
    ///
    /// Checksums are verified where the codec has them (adler32 of zlib, xxh64 of lz4, the check of xz). Sizes in
    /// the bytes never size an allocation. On an error the contents of `out` are unspecified.
    pub fn decompress_into(&mut self, records: &[u8], out: &mut [u8]) -> Result<Codec, CompressError> {
        walk(records, out.len(), |record, place| self.decompress_payload(record.codec, record.payload, &mut out[place]))
    }

    fn decompress_payload(&mut self, codec: Codec, payload: &[u8], out: &mut [u8]) -> Result<(), CompressFault> {
        let plain_bytes = match codec {
            Codec::Zlib => self.deflate().zlib_decompress(payload, out).map_err(CompressFault::corrupt)?,
            Codec::OldCs => self.deflate().deflate_decompress(payload, out).map_err(CompressFault::corrupt)?,
            Codec::Zstd => self
                .zstd
                .get_or_insert_default()
                .decompress(out, payload)
                .map_err(|code| CompressFault::corrupt(zstd_safe::get_error_name(code)))?,
            Codec::Lz4 => decompress_lz4(payload, out)?,
            Codec::Lzma => decompress_xz(payload, out)?,
            Codec::None => 0,
        };
        if plain_bytes == out.len() {
            Ok(())
        } else {
            Err(CompressFault::WrongLength { plain_bytes, promised_bytes: out.len() })
        }
    }

    fn deflate(&mut self) -> &mut libdeflater::Decompressor {
        self.deflate.get_or_insert_with(libdeflater::Decompressor::new)
    }
}

/// Refuses records that cannot decompress to `plain_bytes`, as far as their headers tell: to be asked before memory is
/// taken for so many.
pub fn check_promise(records: &[u8], plain_bytes: usize) -> Result<(), CompressError> {
    walk(records, plain_bytes, |record, _| record.check_promise()).map(|_| ())
}

/// Visits the records of a sequence with the place of each in the plain bytes, and answers with the first one's codec.
fn walk(
    records: &[u8],
    plain_bytes: usize,
    mut visit: impl FnMut(&Record<'_>, Range<usize>) -> Result<(), CompressFault>,
) -> Result<Codec, CompressError> {
    let mut first_codec = None;
    let mut offset = 0;
    let mut filled = 0;
    while filled < plain_bytes {
        if offset == records.len() {
            let fault = CompressFault::EndsEarly { plain_bytes: filled, wanted_bytes: plain_bytes };
            return Err(CompressError { offset, codec: first_codec, fault });
        }
        let record = Record::at(records, offset)?;
        let fail = |fault| CompressError { offset, codec: Some(record.codec), fault };
        let room_bytes = plain_bytes - filled;
        if record.plain_bytes > room_bytes {
            return Err(fail(CompressFault::TooLong { plain_bytes: record.plain_bytes, room_bytes }));
        }
        visit(&record, filled..filled + record.plain_bytes).map_err(fail)?;
        first_codec.get_or_insert(record.codec);
        filled += record.plain_bytes;
        offset += HEADER_BYTES + record.payload.len();
    }
    if offset < records.len() {
        let fault = CompressFault::TrailingBytes { count: records.len() - offset };
        return Err(CompressError { offset, codec: first_codec, fault });
    }
    Ok(first_codec.unwrap_or(Codec::None))
}

/// One record, its sizes checked against the bytes there are.
struct Record<'a> {
    codec: Codec,
    plain_bytes: usize,
    payload: &'a [u8],
}

impl<'a> Record<'a> {
    fn at(records: &'a [u8], offset: usize) -> Result<Self, CompressError> {
        let rest = &records[offset..];
        let codec = Codec::of_record(rest);
        let fail = |fault| CompressError { offset, codec, fault };
        let Some((header, rest)) = rest.split_first_chunk::<HEADER_BYTES>() else {
            return Err(fail(CompressFault::ShortHeader { count: rest.len() }));
        };
        let [magic_0, magic_1, method, compressed @ .., plain_0, plain_1, plain_2] = *header;
        let codec = codec.ok_or_else(|| fail(CompressFault::UnknownMagic([magic_0, magic_1])))?;
        if method != codec.method() {
            return Err(fail(CompressFault::UnknownMethod(method)));
        }
        let wanted_bytes = little_endian(compressed);
        let payload = rest
            .get(..wanted_bytes)
            .ok_or_else(|| fail(CompressFault::Truncated { wanted_bytes, payload_bytes: rest.len() }))?;
        Ok(Self { codec, plain_bytes: little_endian([plain_0, plain_1, plain_2]), payload })
    }

    /// Refuses a plain size that this payload cannot have.
    fn check_promise(&self) -> Result<(), CompressFault> {
        let promised_bytes = self.plain_bytes;
        if promised_bytes > self.payload.len().saturating_mul(self.codec.factor_max()) {
            return Err(CompressFault::Implausible { promised_bytes, payload_bytes: self.payload.len() });
        }
        // Most zstd frames tell their plain size themselves.
        match (self.codec, zstd_safe::get_frame_content_size(self.payload)) {
            (Codec::Zstd, Ok(Some(size))) if size != promised_bytes as u64 => {
                let plain_bytes = usize::try_from(size).unwrap_or(usize::MAX);
                Err(CompressFault::WrongLength { plain_bytes, promised_bytes })
            }
            _ => Ok(()),
        }
    }
}

fn little_endian(bytes: [u8; 3]) -> usize {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

fn decompress_lz4(payload: &[u8], out: &mut [u8]) -> Result<usize, CompressFault> {
    let Some((stored, block)) = payload.split_first_chunk::<LZ4_CHECKSUM_BYTES>() else {
        return Err(CompressFault::corrupt("its checksum is incomplete"));
    };
    let stored = u64::from_be_bytes(*stored);
    let computed = xxh64(block, 0);
    if stored != computed {
        return Err(CompressFault::Checksum { stored, computed });
    }
    // A record's plain size has 24 bits.
    let room = i32::try_from(out.len()).map_err(CompressFault::corrupt)?;
    lz4::block::decompress_to_buffer(block, Some(room), out)
        .map_err(|_| CompressFault::corrupt("the block does not fit the plain size or is damaged"))
}

fn decompress_xz(payload: &[u8], out: &mut [u8]) -> Result<usize, CompressFault> {
    let mut stream = Stream::new_stream_decoder(XZ_MEMORY_LIMIT_BYTES, 0).map_err(CompressFault::corrupt)?;
    let (mut consumed, mut filled) = (0, 0);
    loop {
        let status =
            stream.process(&payload[consumed..], &mut out[filled..], Action::Finish).map_err(CompressFault::corrupt)?;
        let progress = (stream.total_in() as usize, stream.total_out() as usize);
        if status == Status::StreamEnd {
            return Ok(progress.1);
        }
        // The end of the stream may need another call when the last one filled `out`.
        if progress == (consumed, filled) {
            return Err(CompressFault::corrupt("the stream does not end with the plain size or the payload"));
        }
        (consumed, filled) = progress;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests;
