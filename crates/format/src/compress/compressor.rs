//! Makes compression records of plain bytes, as ROOT does.

use liblzma::stream::{Action, Check, Filters, LzmaOptions, Status, Stream};
use lz4::block::CompressionMode;
use xxhash_rust::xxh64::xxh64;

use super::codec::LZ4_CHECKSUM_BYTES;
use super::record::HEADER_BYTES;
use super::{Codec, Setting};

/// Plain bytes of a record at most (ROOT's kMAXZIPBUF), and of a payload: its header has three bytes for each.
const RECORD_BYTES_MAX: usize = 0xff_ffff;
/// From this level on ROOT compresses with LZ4's thorough mode.
const LZ4_THOROUGH_LEVEL: u8 = 4;
/// The smallest dictionary of lzma.
const LZMA_DICTIONARY_BYTES_MIN: usize = 4096;
/// A dictionary has this part of the plain bytes, at most.
const LZMA_DICTIONARY_SHARE: usize = 4;
/// The dictionaries of its presets from 1 to 9.
const LZMA_DICTIONARY_BYTES: [u32; 9] =
    [1 << 20, 2 << 20, 4 << 20, 4 << 20, 8 << 20, 8 << 20, 16 << 20, 32 << 20, 64 << 20];
/// Payloads of incompressible bytes are longer than these by less than this and a 64th of them, for all codecs.
const FRAMING_BYTES: usize = 1024;

/// The contexts of all codecs, made when first needed and used again: one `Compressor` per thread.
#[derive(Default)]
pub struct Compressor {
    /// The level that the context was made for, and the context.
    deflate: Option<(u8, libdeflater::Compressor)>,
    zstd: Option<zstd_safe::CCtx<'static>>,
    /// The buffer that records are made in.
    room: Vec<u8>,
}

impl Compressor {
    /// No context is made yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of memory that it keeps, but for what libdeflate does, which is less than 2 MB.
    pub fn bytes(&self) -> usize {
        self.room.capacity() + self.zstd.as_ref().map_or(0, zstd_safe::CCtx::sizeof)
    }

    /// Adds the records of `plain` to `out` and returns true. Returns false and leaves `out` as it is where they would
    /// not be smaller: the caller stores such bytes plain, as ROOT does (R__zipMultipleAlgorithm).
    pub fn compress(&mut self, setting: Setting, plain: &[u8], out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let mut room = std::mem::take(&mut self.room);
        let is_smaller = setting != Setting::NONE
            && plain.chunks(RECORD_BYTES_MAX).all(|part| {
                if room.len() < bytes_max(part) {
                    room.resize(bytes_max(part), 0);
                }
                let size = self.record(setting, part, &mut room);
                size.and_then(|size| room.get(..size)).map(|record| out.extend_from_slice(record)).is_some()
            })
            && out.len() - start < plain.len();
        self.room = room;
        if !is_smaller {
            out.truncate(start);
        }
        is_smaller
    }

    /// The same over what `out` has from `start` on, without a copy: for memory that is used again and again, as there
    /// is to be room for what a codec may make. Where the records would not be smaller, `out` ends at `start`.
    pub fn compress_over(&mut self, setting: Setting, plain: &[u8], out: &mut Vec<u8>, start: usize) -> bool {
        let room_bytes = start + plain.chunks(RECORD_BYTES_MAX).map(bytes_max).sum::<usize>();
        if setting != Setting::NONE && out.len() < room_bytes {
            out.resize(room_bytes, 0);
        }
        let mut end = start;
        let is_smaller = setting != Setting::NONE
            && plain.chunks(RECORD_BYTES_MAX).all(|part| {
                let size = out.get_mut(end..).and_then(|room| self.record(setting, part, room));
                end += size.unwrap_or(0);
                size.is_some()
            })
            && end - start < plain.len();
        out.truncate(if is_smaller { end } else { start });
        is_smaller
    }

    /// Fills the start of the room with a record, and returns its bytes; None where the codec fails.
    fn record(&mut self, setting: Setting, plain: &[u8], room: &mut [u8]) -> Option<usize> {
        let (header, room) = room.split_first_chunk_mut::<HEADER_BYTES>()?;
        let size = self.payload(setting, plain, room)?;
        if size > RECORD_BYTES_MAX {
            return None;
        }
        let [m0, m1] = setting.codec().magic()?;
        let ([s0, s1, s2, _], [p0, p1, p2, _]) = ((size as u32).to_le_bytes(), (plain.len() as u32).to_le_bytes());
        *header = [m0, m1, setting.codec().method(), s0, s1, s2, p0, p1, p2];
        Some(HEADER_BYTES + size)
    }

    /// Fills the start of the room with a payload, and returns its bytes; None where the codec fails.
    fn payload(&mut self, setting: Setting, plain: &[u8], room: &mut [u8]) -> Option<usize> {
        let level = setting.level();
        match setting.codec() {
            Codec::Zlib => {
                if self.deflate.as_ref().is_none_or(|(made_for, _)| *made_for != level) {
                    let level = libdeflater::CompressionLvl::new(i32::from(level)).ok()?;
                    self.deflate = Some((setting.level(), libdeflater::Compressor::new(level)));
                }
                let (_, deflate) = self.deflate.as_mut()?;
                deflate.zlib_compress(plain, room).ok()
            }
            // ROOT's levels up to 9 are every other one of zstd's.
            Codec::Zstd => {
                let zstd = self.zstd.get_or_insert_default();
                zstd.compress(room, plain, 2 * i32::from(level)).ok()
            }
            Codec::Lz4 => compress_lz4(level, plain, room),
            Codec::Lzma => compress_xz(level, plain, room),
            Codec::None | Codec::OldCs => None,
        }
    }
}

/// Bytes of a record at most; codecs that would need more fail.
fn bytes_max(plain: &[u8]) -> usize {
    plain.len() + plain.len() / 64 + FRAMING_BYTES
}

fn compress_lz4(level: u8, plain: &[u8], room: &mut [u8]) -> Option<usize> {
    let mode = (level >= LZ4_THOROUGH_LEVEL).then(|| CompressionMode::HIGHCOMPRESSION(i32::from(level)));
    let (checksum, block) = room.split_first_chunk_mut::<LZ4_CHECKSUM_BYTES>()?;
    let size = lz4::block::compress_to_buffer(plain, mode, false, block).ok()?;
    *checksum = xxh64(block.get(..size)?, 0).to_be_bytes();
    Some(LZ4_CHECKSUM_BYTES + size)
}

fn compress_xz(level: u8, plain: &[u8], room: &mut [u8]) -> Option<usize> {
    let mut options = LzmaOptions::new_preset(u32::from(level)).ok()?;
    // As ROOT's: a larger dictionary finds hardly more, and takes time and memory, here and in each reader.
    let dictionary_bytes = LZMA_DICTIONARY_BYTES.get(usize::from(level).checked_sub(1)?)?;
    let enough_bytes = (plain.len() / LZMA_DICTIONARY_SHARE).max(LZMA_DICTIONARY_BYTES_MIN) as u32;
    options.dict_size(enough_bytes.min(*dictionary_bytes));
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::Decompressor;
    use super::*;

    const SETTINGS: [&str; 12] = [
        "zlib:1", "zlib:6", "zlib:9", "zstd:1", "zstd:5", "zstd:9", "lz4:1", "lz4:4", "lz4:9", "lzma:1", "lzma:7",
        "lzma:9",
    ];

    fn words(length: usize) -> Vec<u8> {
        let mut state = 1_u32;
        let mut word = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 28).to_be_bytes()
        };
        std::iter::repeat_with(&mut word).flatten().take(length).collect()
    }

    fn noise(length: usize) -> Vec<u8> {
        (0..length.div_ceil(8) as u64)
            .flat_map(|number| xxh64(&number.to_le_bytes(), 7).to_le_bytes())
            .take(length)
            .collect()
    }

    fn check(compressor: &mut Compressor, setting: Setting, plain: &[u8]) -> Vec<u8> {
        let mut out = b"before".to_vec();
        assert!(compressor.compress(setting, plain, &mut out), "{setting}, {} bytes", plain.len());
        let records = out.strip_prefix(b"before").unwrap();
        assert!(records.len() < plain.len());
        let mut back = vec![0; plain.len()];
        assert_eq!(Decompressor::new().decompress_into(records, &mut back), Ok(setting.codec()), "{setting}");
        assert!(back == plain, "{setting}, {} bytes", plain.len());
        for mut over in [b"before".to_vec(), [b"before", &vec![7; 2 * plain.len()][..]].concat()] {
            assert!(compressor.compress_over(setting, plain, &mut over, 6));
            assert!(over == out, "{setting}, {} bytes", plain.len());
        }
        records.to_vec()
    }

    #[test]
    fn what_is_compressed_decompresses_to_the_same() {
        let mut compressor = Compressor::new();
        for setting in SETTINGS {
            let setting: Setting = setting.parse().unwrap();
            for length in [300, 32_000, 1_100_000, 400] {
                check(&mut compressor, setting, &words(length));
            }
        }
    }

    #[test]
    fn more_than_a_record_holds_takes_several() {
        let mut plain = words(RECORD_BYTES_MAX + 5);
        plain[..RECORD_BYTES_MAX].fill(9);
        for setting in ["zlib:1", "zstd:1", "lz4:1", "lzma:1"] {
            let setting: Setting = setting.parse().unwrap();
            let records = check(&mut Compressor::new(), setting, &plain);
            assert_eq!(records[6..9], [0xff; 3], "{setting}: a full record comes first");
        }
    }

    #[test]
    fn what_does_not_become_smaller_is_to_be_stored_plain() {
        let mut compressor = Compressor::new();
        for setting in SETTINGS.map(|setting| setting.parse::<Setting>().unwrap()) {
            for plain in [&b""[..], b"short", &noise(20_000), &noise(RECORD_BYTES_MAX + 1)[..]] {
                if plain.len() > 20_000 && (setting.level() > 1 || setting.codec() == Codec::Lzma) {
                    continue; // seconds for nothing
                }
                let mut out = b"before".to_vec();
                assert!(!compressor.compress(setting, plain, &mut out), "{setting}, {} bytes", plain.len());
                assert_eq!(out, b"before");
                out.extend(b" and behind");
                assert!(!compressor.compress_over(setting, plain, &mut out, 6), "{setting}, {} bytes", plain.len());
                assert_eq!(out, b"before");
            }
            check(&mut compressor, setting, &words(5000));
        }
        assert!(!compressor.compress(Setting::NONE, &words(5000), &mut Vec::new()));
    }
}
