//! Compression records of any codec, behind three bytes for the plain size.

use crate::input::Input;
use crate::memory::bounded;
use branchline_format::compress::{Codec, Decompressor};

/// Plain bytes that are decompressed at most.
const PLAIN_BYTES_MAX: usize = 1 << 20;

pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let size = usize::from(input.short()) | usize::from(input.byte()) << 16;
    let mut plain = vec![0xAA; size.min(PLAIN_BYTES_MAX)];
    let mut decompressor = Decompressor::new();
    let first = bounded(bytes.len(), 1, || decompressor.decompress_into(input.0, &mut plain));
    if let Ok(codec) = first {
        assert!(plain.is_empty() || codec != Codec::None, "nothing says how {} bytes came about", plain.len());
        // The contexts are as good as new.
        let mut again = vec![0x55; plain.len()];
        assert_eq!(decompressor.decompress_into(input.0, &mut again).ok(), Some(codec));
        assert_eq!(plain, again);
    }
}
