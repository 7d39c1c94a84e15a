//! Verification, decompression and compression of pages with checksums (section "Page Locations").
//!
//! ```
//! use branchline_format::compress::{Compressor, Setting};
//! use branchline_format::ntuple::write::page::{checksum_of, sealed};
//!
//! let stored = sealed(b"abc", Setting::NONE, &mut Compressor::new());
//! assert_eq!(stored, [&b"abc"[..], &checksum_of(b"abc")].concat());
//! ```

use xxhash_rust::xxh3::xxh3_64;

use crate::compress::{CompressError, Compressor, Decompressor, Setting};
use crate::error::{FormatError, Result};

use super::super::column_read::{checked_plain_size, verified};
use super::super::encoding::Encoding;
use super::super::page_list::Page;

/// Verifies a page's checksum, if it has one, and returns the compressed bytes.
pub fn checked<'a>(stored: &'a [u8], page: &Page) -> Result<&'a [u8]> {
    verified(stored, page)
}

/// Decompresses a page.
pub fn unpacked(
    compressed: &[u8],
    page: &Page,
    encoding: &Encoding,
    decompressor: &mut Decompressor,
) -> Result<Vec<u8>> {
    let size = checked_plain_size(encoding, page, compressed)?;
    if size == compressed.len() {
        return Ok(compressed.to_vec());
    }
    let mut plain = vec![0; size];
    let damaged = |error: CompressError| FormatError::not_decompressed(page.locator.offset, error);
    decompressor.decompress_into(compressed, &mut plain).map_err(damaged)?;
    Ok(plain)
}

/// Compresses a page and appends its checksum. Stores the page uncompressed if compression does not make it smaller.
pub fn sealed(plain: &[u8], setting: Setting, compressor: &mut Compressor) -> Vec<u8> {
    let mut stored = Vec::new();
    if !compressor.compress(setting, plain, &mut stored) {
        stored.extend_from_slice(plain);
    }
    add_checksum(&mut stored);
    stored
}

/// Like [`sealed`], but overwrites a reused buffer.
pub fn seal_over(plain: &[u8], setting: Setting, compressor: &mut Compressor, stored: &mut Vec<u8>) {
    if !compressor.compress_over(setting, plain, stored, 0) {
        stored.extend_from_slice(plain);
    }
    add_checksum(stored);
}

/// Appends the checksum to a page's compressed bytes.
pub fn add_checksum(stored: &mut Vec<u8>) {
    let checksum = checksum_of(stored);
    stored.extend_from_slice(&checksum);
}

/// Computes the checksum of a page's compressed bytes.
pub fn checksum_of(stored: &[u8]) -> [u8; 8] {
    xxh3_64(stored).to_le_bytes()
}
