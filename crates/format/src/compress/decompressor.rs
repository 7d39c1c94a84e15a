//! Plain bytes of compression records.

use libdeflater::adler32;
use liblzma::stream::{Action, Status, Stream};
use xxhash_rust::xxh64::xxh64;

use super::codec::LZ4_CHECKSUM_BYTES;
use super::record::walk;
use super::{Codec, CompressError, CompressFault};

/// Memory of the xz decoder, whose dictionary is sized by the file. The strongest setting of ROOT (xz preset 9)
/// takes 65 MiB; twice that leaves room for other writers and still bounds what a hostile file can claim.
const XZ_MEMORY_LIMIT_BYTES: u64 = 128 * 1024 * 1024;

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
            Codec::Zlib => self.decompress_zlib(payload, out)?,
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

    /// A zlib stream (RFC 1950), which has to fill the payload: its checksum is taken from the payload's end. Otherwise
    /// a shorter stream that came to stand here, valid in itself, would pass.
    fn decompress_zlib(&mut self, payload: &[u8], out: &mut [u8]) -> Result<usize, CompressFault> {
        let Some((stream, checksum)) = payload.split_last_chunk::<4>() else {
            return Err(CompressFault::corrupt("its checksum is incomplete"));
        };
        let Some(stream) =
            stream.split_first_chunk::<2>().filter(|(head, _)| is_zlib_head(**head)).map(|(_, rest)| rest)
        else {
            return Err(CompressFault::corrupt("the head of the zlib stream is damaged"));
        };
        let plain_bytes = self.deflate().deflate_decompress(stream, out).map_err(CompressFault::corrupt)?;
        let (stored, computed) = (u32::from_be_bytes(*checksum), adler32(&out[..plain_bytes]));
        if stored != computed {
            return Err(CompressFault::Checksum { stored: stored.into(), computed: computed.into() });
        }
        Ok(plain_bytes)
    }

    fn deflate(&mut self) -> &mut libdeflater::Decompressor {
        self.deflate.get_or_insert_with(libdeflater::Decompressor::new)
    }
}

/// Deflate, a window of at most 32 KiB, no dictionary, and a right check (RFC 1950, 2.2).
fn is_zlib_head(head: [u8; 2]) -> bool {
    let [method, flags] = head;
    method & 0x0f == 8 && method >> 4 <= 7 && flags & 0x20 == 0 && u16::from_be_bytes(head).is_multiple_of(31)
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
        if status == Status::StreamEnd && progress.0 < payload.len() {
            return Err(CompressFault::corrupt("the stream ends before its record"));
        }
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
