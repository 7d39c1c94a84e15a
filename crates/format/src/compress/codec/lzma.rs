//! xz containers (`XZ`).

use liblzma::stream::{Action, Check, Filters, LzmaOptions, Status, Stream};

use super::coder::{CodecFacts, Coder, COMPRESSION_FACTOR_MAX};
use crate::compress::fault::CompressFault;

pub(super) const LZMA: CodecFacts = CodecFacts {
    name: "lzma",
    magic: Some(*b"XZ"),
    method: 0,
    // In the best case, a match of 273 bytes takes a tenth of a bit.
    factor_max: COMPRESSION_FACTOR_MAX as usize,
    root_number: 2,
    default_level: Some(7),
    coder: || Box::new(Lzma),
    declared_bytes: |_| None,
    working_bytes: |payload| dictionary_bytes(payload).unwrap_or(0),
    #[cfg(test)]
    payload: tests::payload,
};

/// Memory limit of the decoder. A limit is needed because the dictionary size comes from the file. ROOT's strongest
/// setting (preset 9) needs 65 MiB. About twice that amount allows for other writers and still limits hostile files.
const MEMORY_LIMIT_BYTES: u64 = 128 * 1024 * 1024;
/// Minimum dictionary size in bytes.
const DICTIONARY_BYTES_MIN: usize = 4096;
/// Divisor that limits the dictionary size: the uncompressed size divided by this number.
const DICTIONARY_DIVISOR: usize = 4;
/// Dictionary sizes of the xz presets 1 to 9, in bytes.
const PRESET_DICTIONARY_BYTES: [u32; 9] =
    [1 << 20, 2 << 20, 4 << 20, 4 << 20, 8 << 20, 8 << 20, 16 << 20, 32 << 20, 64 << 20];

struct Lzma;

impl Coder for Lzma {
    fn decompress(&mut self, payload: &[u8], out: &mut [u8]) -> Result<usize, CompressFault> {
        let mut stream = Stream::new_stream_decoder(MEMORY_LIMIT_BYTES, 0).map_err(CompressFault::corrupt)?;
        let (mut consumed, mut filled) = (0, 0);
        loop {
            let status = stream
                .process(&payload[consumed..], &mut out[filled..], Action::Finish)
                .map_err(CompressFault::corrupt)?;
            let progress = (stream.total_in() as usize, stream.total_out() as usize);
            if status == Status::StreamEnd && progress.0 < payload.len() {
                return Err(CompressFault::corrupt("the stream ends before the end of its record"));
            }
            if status == Status::StreamEnd {
                return Ok(progress.1);
            }
            // If the last call filled `out`, another call may be needed to reach the end of the stream.
            if progress == (consumed, filled) {
                return Err(CompressFault::corrupt("the stream is truncated or exceeds the plain size"));
            }
            (consumed, filled) = progress;
        }
    }

    fn compress(&mut self, level: u8, plain: &[u8], room: &mut [u8]) -> Option<usize> {
        let mut options = LzmaOptions::new_preset(u32::from(level)).ok()?;
        // Like ROOT, limit the dictionary: a larger one hardly improves compression, but slows down compression and
        // decompression and costs memory.
        let preset_bytes = PRESET_DICTIONARY_BYTES.get(usize::from(level).checked_sub(1)?)?;
        let enough_bytes = (plain.len() / DICTIONARY_DIVISOR).max(DICTIONARY_BYTES_MIN) as u32;
        options.dict_size(enough_bytes.min(*preset_bytes));
        let mut stream = Stream::new_stream_encoder(Filters::new().lzma2(&options), Check::Crc32).ok()?;
        let mut consumed = 0;
        loop {
            let filled = stream.total_out() as usize;
            let status = stream.process(&plain[consumed..], room.get_mut(filled..)?, Action::Finish).ok()?;
            let progress = (stream.total_in() as usize, stream.total_out() as usize);
            if status == Status::StreamEnd {
                return Some(progress.1);
            }
            if progress == (consumed, filled) {
                return None;
            }
            consumed = progress.0;
        }
    }
}

/// The dictionary size of an xz stream, from the header of its first block (sections 3.1 and 5.3.1 of the xz format).
fn dictionary_bytes(payload: &[u8]) -> Option<u64> {
    const STREAM_HEADER_BYTES: usize = 12;
    const LZMA2: u8 = 0x21;
    let (size, flags) = (*payload.get(STREAM_HEADER_BYTES)?, *payload.get(STREAM_HEADER_BYTES + 1)?);
    let header = payload.get(STREAM_HEADER_BYTES..)?.get(..4 * (usize::from(size) + 1))?;
    let mut rest = header.get(2..)?;
    let skip_number = |rest: &mut &[u8]| -> Option<()> {
        let length = rest.iter().position(|byte| byte & 0x80 == 0)? + 1;
        *rest = rest.get(length..)?;
        Some(())
    };
    for given in [0x40, 0x80] {
        if flags & given != 0 {
            skip_number(&mut rest)?; // compressed or uncompressed size
        }
    }
    for _filter in 0..=(flags & 3) {
        let id = *rest.first()?;
        skip_number(&mut rest)?;
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    pub(super) fn payload(plain: &[u8]) -> Vec<u8> {
        let mut room = vec![0; plain.len() + plain.len() / 8 + 1024];
        let mut stream = Stream::new_easy_encoder(6, Check::Crc32).unwrap();
        assert_eq!(stream.process(plain, &mut room, Action::Finish).unwrap(), Status::StreamEnd);
        room.truncate(stream.total_out() as usize);
        room
    }
}
