//! Compresses the records of baskets again.

use crate::basket::BasketRecord;
use crate::compress::{Compressor, Decompressor, Setting};
use crate::error::{FormatError, Result};

impl std::fmt::Debug for BasketTools {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("BasketTools").finish_non_exhaustive()
    }
}

/// What compressing baskets takes, used again from one to the next: one per thread.
#[derive(Default)]
pub struct BasketTools {
    decompressor: Decompressor,
    compressor: Compressor,
    /// Plain bytes of a basket.
    room: Vec<u8>,
    /// Memory for the next record, if some was given.
    record: Option<Vec<u8>>,
}

impl BasketTools {
    /// Nothing is made yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of memory that it keeps.
    pub fn bytes(&self) -> usize {
        self.compressor.bytes() + self.room.capacity() + self.record.as_ref().map_or(0, Vec::capacity)
    }

    /// Gives memory for the next record that is made, with whatever is in it.
    pub fn reuse(&mut self, record: Vec<u8>) {
        self.record = Some(record);
    }

    /// The plain bytes of a basket.
    pub fn decompress<'p>(&'p mut self, basket: &BasketRecord<'p>) -> Result<&'p [u8]> {
        basket.decompress(&mut self.decompressor, &mut self.room)
    }

    /// A record of a head and compressed bytes; Err with memory if they do not become smaller.
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
        // Memory that was given has room for what a codec may make; other memory is as large as the record.
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

    /// The record of a basket with the same plain bytes in another compression; all of its key stays but its size.
    pub fn recompress(&mut self, record: &[u8], entries_count: u64, setting: Setting) -> Result<Vec<u8>> {
        let basket = BasketRecord::parse(record, entries_count)?;
        let plain = basket.decompress(&mut self.decompressor, &mut self.room)?;
        let mut out = Vec::with_capacity(record.len());
        out.extend_from_slice(&record[..record.len() - basket.stored_bytes()]);
        if !self.compressor.compress(setting, plain, &mut out) {
            out.extend_from_slice(plain);
        }
        let size = i32::try_from(out.len()).map_err(|_| {
            FormatError::unsupported(format!("a basket of {} bytes is larger than ROOT files have room for", out.len()))
        })?;
        out[..4].copy_from_slice(&size.to_be_bytes());
        Ok(out)
    }
}
