//! zlib streams (`ZL`), and the raw deflate streams that ROOT wrote in its first years (`CS`).

use libdeflater::{adler32, CompressionLvl, Compressor, Decompressor};

use super::coder::{CodecFacts, Coder};
use crate::compress::fault::CompressFault;

pub(super) const ZLIB: CodecFacts = CodecFacts {
    name: "zlib",
    magic: Some(*b"ZL"),
    method: 8,
    factor_max: FACTOR_MAX,
    root_number: 1,
    default_level: Some(1),
    coder: || Box::<Zlib>::default(),
    declared_bytes: |_| None,
    working_bytes: |_| 0,
    #[cfg(test)]
    payload: tests::zlib,
};

pub(super) const OLD_CS: CodecFacts = CodecFacts {
    name: "old CS",
    magic: Some(*b"CS"),
    method: 8,
    factor_max: FACTOR_MAX,
    root_number: 3,
    default_level: None,
    coder: || Box::<OldCs>::default(),
    declared_bytes: |_| None,
    working_bytes: |_| 0,
    #[cfg(test)]
    payload: tests::old_cs,
};

/// Maximum compression factor of deflate: in the best case, a match of 258 bytes takes two bits.
const FACTOR_MAX: usize = 1032;

#[derive(Default)]
struct Zlib {
    decompressor: Option<Decompressor>,
    /// The compressor and its compression level.
    compressor: Option<(u8, Compressor)>,
}

impl Coder for Zlib {
    /// Decompress a zlib stream (RFC 1950). Fails unless the stream fills the payload: the checksum is read from the
    /// end of the payload, so a shorter stream would be checked against the wrong bytes.
    fn decompress(&mut self, payload: &[u8], out: &mut [u8]) -> Result<usize, CompressFault> {
        let Some((stream, checksum)) = payload.split_last_chunk::<4>() else {
            return Err(CompressFault::corrupt("its checksum is incomplete"));
        };
        let Some(stream) =
            stream.split_first_chunk::<2>().filter(|(head, _)| is_zlib_head(**head)).map(|(_, rest)| rest)
        else {
            return Err(CompressFault::corrupt("the zlib header is damaged"));
        };
        let decompressor = self.decompressor.get_or_insert_with(Decompressor::new);
        let plain_bytes = decompressor.deflate_decompress(stream, out).map_err(CompressFault::corrupt)?;
        let (stored, computed) = (u32::from_be_bytes(*checksum), adler32(&out[..plain_bytes]));
        if stored != computed {
            return Err(CompressFault::Checksum { stored: stored.into(), computed: computed.into() });
        }
        Ok(plain_bytes)
    }

    fn compress(&mut self, level: u8, plain: &[u8], room: &mut [u8]) -> Option<usize> {
        if self.compressor.as_ref().is_none_or(|(made_for, _)| *made_for != level) {
            self.compressor = Some((level, Compressor::new(CompressionLvl::new(i32::from(level)).ok()?)));
        }
        let (_, compressor) = self.compressor.as_mut()?;
        compressor.zlib_compress(plain, room).ok()
    }
}

/// Whether a zlib header is valid (RFC 1950, 2.2): deflate, a window of at most 32 KiB, no dictionary, and correct
/// check bits.
fn is_zlib_head(head: [u8; 2]) -> bool {
    let [method, flags] = head;
    method & 0x0f == 8 && method >> 4 <= 7 && flags & 0x20 == 0 && u16::from_be_bytes(head).is_multiple_of(31)
}

#[derive(Default)]
struct OldCs(Option<Decompressor>);

impl Coder for OldCs {
    fn decompress(&mut self, payload: &[u8], out: &mut [u8]) -> Result<usize, CompressFault> {
        let decompressor = self.0.get_or_insert_with(Decompressor::new);
        decompressor.deflate_decompress(payload, out).map_err(CompressFault::corrupt)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    pub(super) fn zlib(plain: &[u8]) -> Vec<u8> {
        let mut compressor = Compressor::new(CompressionLvl::default());
        let mut room = vec![0; compressor.zlib_compress_bound(plain.len())];
        let size = compressor.zlib_compress(plain, &mut room).unwrap();
        room.truncate(size);
        room
    }

    pub(super) fn old_cs(plain: &[u8]) -> Vec<u8> {
        let mut compressor = Compressor::new(CompressionLvl::default());
        let mut room = vec![0; compressor.deflate_compress_bound(plain.len())];
        let size = compressor.deflate_compress(plain, &mut room).unwrap();
        room.truncate(size);
        room
    }
}
