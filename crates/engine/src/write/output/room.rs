//! Preallocates disk space in large pieces. The kernel then does not have to account for each block, and the blocks are
//! contiguous.

use std::fs::File;

use super::system::{keep_room, keeps_room};
use crate::limits;

/// The space preallocated after the end of a file.
#[derive(Debug)]
pub(crate) struct Room {
    end: u64,
    is_kept: bool,
}

impl Room {
    /// Creates a state without preallocated space.
    pub(crate) fn of(file: &File) -> Self {
        Self { end: 0, is_kept: keeps_room(file) }
    }

    /// Preallocates space for the bytes from `start` to `end`, if the file is large enough for preallocation to be
    /// useful. If disk space runs out, the write reports the error.
    pub(crate) fn make(&mut self, file: &File, start: u64, end: u64) {
        if !self.is_kept || start < limits::ROOM_FROM_BYTES || end <= self.end {
            return;
        }
        let from = self.end.max(start);
        let length = limits::ROOM_AT_ONCE_BYTES.max(end - from);
        if keep_room(file, from, length) {
            self.end = from + length;
        } else {
            self.is_kept = false;
        }
    }

    /// Releases the space that was preallocated after the end of a file of this size.
    pub(crate) fn give_back(&mut self, file: &File, size: u64) -> std::io::Result<()> {
        if self.end > size {
            file.set_len(size)?;
        }
        self.forget();
        Ok(())
    }

    /// Notes that the file was truncated, which released the preallocated space.
    pub(crate) fn forget(&mut self) {
        self.end = 0;
    }
}
