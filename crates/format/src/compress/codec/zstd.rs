//! zstd frames (`ZS`).

use zstd_safe::{CCtx, DCtx};

use super::coder::{CodecFacts, Coder};
use crate::compress::fault::CompressFault;

pub(super) const ZSTD: CodecFacts = CodecFacts {
    name: "zstd",
    magic: Some(*b"ZS"),
    method: 1,
    // At best, a block of 128 KiB that repeats one byte takes four bytes.
    factor_max: 32_768,
    root_number: 5,
    default_level: Some(5),
    coder: || Box::<Zstd>::default(),
    working_bytes: |_| 0,
    // Most zstd frames contain their uncompressed size.
    declared_bytes: |payload| zstd_safe::get_frame_content_size(payload).ok().flatten(),
    #[cfg(test)]
    payload: tests::payload,
};

#[derive(Default)]
struct Zstd {
    decompressor: Option<DCtx<'static>>,
    compressor: Option<CCtx<'static>>,
}

impl Coder for Zstd {
    fn decompress(&mut self, payload: &[u8], out: &mut [u8]) -> Result<usize, CompressFault> {
        let decompressor = self.decompressor.get_or_insert_default();
        decompressor.decompress(out, payload).map_err(|code| CompressFault::corrupt(zstd_safe::get_error_name(code)))
    }

    fn compress(&mut self, level: u8, plain: &[u8], room: &mut [u8]) -> Option<usize> {
        let compressor = self.compressor.get_or_insert_default();
        // ROOT's levels 1 to 9 are zstd's levels 2 to 18.
        compressor.compress(room, plain, 2 * i32::from(level)).ok()
    }

    fn bytes(&self) -> usize {
        self.compressor.as_ref().map_or(0, CCtx::sizeof)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    pub(super) fn payload(plain: &[u8]) -> Vec<u8> {
        let mut room = vec![0; zstd_safe::compress_bound(plain.len())];
        let size = zstd_safe::compress(&mut room[..], plain, 5).unwrap();
        room.truncate(size);
        room
    }
}
