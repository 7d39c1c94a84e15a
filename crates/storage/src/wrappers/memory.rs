//! A store for bytes that are in memory.

use crate::{RangeRead, ReadEffort, Result, StorageError, Store};

/// Bytes in memory that are read like a file.
#[derive(Debug, Clone)]
pub struct Memory {
    path: String,
    bytes: Vec<u8>,
}

impl Memory {
    /// Creates a store of `bytes`; `path` is the name in messages.
    pub fn new(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), bytes: bytes.into() }
    }

    fn slice(&self, read: &RangeRead) -> Option<&[u8]> {
        let start = usize::try_from(read.range.offset).ok()?;
        let end = usize::try_from(read.range.end()?).ok()?;
        self.bytes.get(start..end)
    }
}

impl Store for Memory {
    fn name(&self) -> &str {
        "memory"
    }

    fn path(&self) -> &str {
        &self.path
    }

    fn size_bytes(&self) -> Result<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn identity(&self) -> Option<String> {
        None
    }

    fn is_near(&self) -> bool {
        true
    }

    fn gap_bytes(&self) -> u64 {
        0
    }

    fn read_ranges(&self, reads: &mut [RangeRead]) -> Result<ReadEffort> {
        let mut effort = ReadEffort::default();
        for read in reads {
            let slice = self
                .slice(read)
                .ok_or_else(|| StorageError::truncated(&self.path, read.range, self.bytes.len() as u64))?;
            let reused = read.prepare(slice.len()).ok_or_else(|| StorageError::no_memory(&self.path, read.range))?;
            if reused {
                read.room().copy_from_slice(slice);
            } else {
                read.buffer_mut().extend_from_slice(slice);
            }
            effort.calls_count += 1;
            effort.read_bytes += slice.len() as u64;
        }
        Ok(effort)
    }
}
