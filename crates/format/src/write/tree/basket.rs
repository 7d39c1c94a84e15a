//! Recompression of basket records.

use crate::basket::BasketRecord;
use crate::compress::{Compressor, Decompressor, Setting};
use crate::error::{FormatError, Result};

impl std::fmt::Debug for BasketTools {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("BasketTools").finish_non_exhaustive()
    }
}

/// Reusable state for compressing baskets. Use one `BasketTools` per thread.
#[derive(Default)]
pub struct BasketTools {
    decompressor: Decompressor,
    compressor: Compressor,
    /// Buffer for the uncompressed bytes of a basket.
    room: Vec<u8>,
    /// Buffer for the next record, if the caller has provided one.
    record: Option<Vec<u8>>,
}

impl BasketTools {
    /// Create the state without any buffers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Memory held by the compressor and the buffers, in bytes.
    pub fn bytes(&self) -> usize {
        self.compressor.bytes() + self.room.capacity() + self.record.as_ref().map_or(0, Vec::capacity)
    }

    /// Provide a buffer for the next record. The contents of the buffer are overwritten.
    pub fn reuse(&mut self, record: Vec<u8>) {
        self.record = Some(record);
    }

    /// Decompress a basket and return the uncompressed bytes.
    pub fn decompress<'p>(&'p mut self, basket: &BasketRecord<'p>) -> Result<&'p [u8]> {
        basket.decompress(&mut self.decompressor, &mut self.room)
    }

    /// Create a record from `head` and the compressed bytes. If compression does not make the bytes smaller, returns
    /// Err with the buffer.
    pub(crate) fn compressed(
        &mut self,
        setting: Setting,
        head: &[u8],
        plain: &[u8],
    ) -> std::result::Result<Vec<u8>, Vec<u8>> {
        let given = self.record.take();
        let is_given = given.is_some();
        let mut record = given.unwrap_or_default();
        if record.len() < head.len() {
            record.resize(head.len(), 0);
        }
        record[..head.len()].copy_from_slice(head);
        // A provided buffer usually has enough space for the codec, so compress directly into it. A new buffer grows
        // only to the size of the record.
        let is_smaller = match is_given {
            true => self.compressor.compress_over(setting, plain, &mut record, head.len()),
            false => self.compressor.compress(setting, plain, &mut record),
        };
        if is_smaller {
            Ok(record)
        } else {
            Err(record)
        }
    }

    /// Recompress the record of a basket with another compression setting. In the key, only the record size changes.
    pub fn recompress(&mut self, record: &[u8], entries_count: u64, setting: Setting) -> Result<Vec<u8>> {
        let basket = BasketRecord::parse(record, entries_count)?;
        let plain = basket.decompress(&mut self.decompressor, &mut self.room)?;
        let mut out = Vec::with_capacity(record.len());
        out.extend_from_slice(&record[..record.len() - basket.stored_bytes()]);
        if !self.compressor.compress(setting, plain, &mut out) {
            out.extend_from_slice(plain);
        }
        let size = i32::try_from(out.len()).map_err(|_| {
            FormatError::unsupported(format!("a basket of {} bytes exceeds the limit of ROOT files", out.len()))
        })?;
        out[..4].copy_from_slice(&size.to_be_bytes());
        Ok(out)
    }
}
