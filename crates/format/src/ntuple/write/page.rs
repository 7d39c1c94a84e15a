//! Pages with their checksums: opened as they are, decompressed, and made (section "Page Locations").

use xxhash_rust::xxh3::xxh3_64;

use crate::compress::{CompressError, Compressor, Decompressor, Setting};
use crate::error::{FormatError, Result};

use super::super::column_read::{checked_plain_size, verified};
use super::super::encoding::Encoding;
use super::super::page_list::Page;

/// The compressed bytes of a page, which agree with its checksum if it has one.
pub fn checked<'a>(stored: &'a [u8], page: &Page) -> Result<&'a [u8]> {
    verified(stored, page)
}

/// The plain bytes of a page.
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
    let damaged = |error: CompressError| FormatError::damaged(page.locator.offset, error.to_string());
    decompressor.decompress_into(compressed, &mut plain).map_err(damaged)?;
    Ok(plain)
}

/// Compresses a page, unless that makes it longer, and adds its checksum.
pub fn sealed(plain: &[u8], setting: Setting, compressor: &mut Compressor) -> Vec<u8> {
    let mut stored = Vec::new();
    if !compressor.compress(setting, plain, &mut stored) {
        stored.extend_from_slice(plain);
    }
    add_checksum(&mut stored);
    stored
}

/// The same, over what is in memory that is used again.
pub fn seal_over(plain: &[u8], setting: Setting, compressor: &mut Compressor, stored: &mut Vec<u8>) {
    if !compressor.compress_over(setting, plain, stored, 0) {
        stored.extend_from_slice(plain);
    }
    add_checksum(stored);
}

/// Adds the checksum of a page behind its compressed bytes.
pub fn add_checksum(stored: &mut Vec<u8>) {
    let checksum = checksum_of(stored);
    stored.extend_from_slice(&checksum);
}

/// The checksum that stands behind these bytes of a page.
pub fn checksum_of(stored: &[u8]) -> [u8; 8] {
    xxh3_64(stored).to_le_bytes()
}
