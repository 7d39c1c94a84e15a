//! Compression into ROOT's compression records.

use super::codec::Coders;
use super::record::HEADER_BYTES;
use super::Setting;

/// Maximum uncompressed size of a record (ROOT's kMAXZIPBUF), and maximum size of its payload. Each size has three
/// bytes in the header.
const RECORD_BYTES_MAX: usize = 0xff_ffff;
/// Constant part of the maximum growth of incompressible data, in bytes. With every codec, incompressible data grows by
/// at most 1/64 plus this constant.
const FRAMING_BYTES: usize = 1024;

/// Compression contexts of all codecs, created on first use and then reused. Use one `Compressor` per thread.
#[derive(Default)]
pub struct Compressor {
    coders: Coders,
    /// Buffer for the record being written.
    room: Vec<u8>,
}

impl Compressor {
    /// Create a compressor without any contexts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Memory held by the compressor in bytes, excluding libdeflate's context of less than 2 MB.
    pub fn bytes(&self) -> usize {
        self.room.capacity() + self.coders.bytes()
    }

    /// Compress `plain`, append the records to `out` and return true. If compression does not make the data smaller,
    /// return false and leave `out` unchanged. The caller then stores `plain` uncompressed, like ROOT
    /// (R__zipMultipleAlgorithm).
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

    /// Like [`Compressor::compress`], but write directly into `out` from `start` on, without an intermediate copy. A
    /// reused `out` does not have to be zeroed again. If the records are not smaller than `plain`, `out` is truncated
    /// to `start`.
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

    /// Write a record to the start of `room` and return its size; None if the codec fails.
    fn record(&mut self, setting: Setting, plain: &[u8], room: &mut [u8]) -> Option<usize> {
        let (header, room) = room.split_first_chunk_mut::<HEADER_BYTES>()?;
        let size = self.coders.of(setting.codec()).compress(setting.level(), plain, room)?;
        if size > RECORD_BYTES_MAX {
            return None;
        }
        let [m0, m1] = setting.codec().magic()?;
        let ([s0, s1, s2, _], [p0, p1, p2, _]) = ((size as u32).to_le_bytes(), (plain.len() as u32).to_le_bytes());
        *header = [m0, m1, setting.codec().method(), s0, s1, s2, p0, p1, p2];
        Some(HEADER_BYTES + size)
    }
}

/// Maximum size of a record including its header; compression fails if the record does not fit.
fn bytes_max(plain: &[u8]) -> usize {
    plain.len() + plain.len() / 64 + FRAMING_BYTES
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use xxhash_rust::xxh64::xxh64;

    use super::super::{Codec, Decompressor};
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
                    continue; // takes seconds and tests nothing new
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
