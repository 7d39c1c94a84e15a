//! Room on the disk for what will be written, reserved in large pieces: the kernel then does not count and reserve each
//! block, and the blocks lie side by side.

use std::fs::File;

use super::system::{keep_room, keeps_room};
use crate::limits;

/// Up to where room is kept behind the end of a file.
#[derive(Debug)]
pub(crate) struct Room {
    end: u64,
    is_kept: bool,
}

impl Room {
    /// None yet.
    pub(crate) fn of(file: &File) -> Self {
        Self { end: 0, is_kept: keeps_room(file) }
    }

    /// Reserves room for bytes from `start` up to `end`, if the file is large enough for that
    /// to matter. Where there is none, it shows when it is written to.
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

    /// Gives back what is reserved behind the end of a file of this size.
    pub(crate) fn give_back(&mut self, file: &File, size: u64) -> std::io::Result<()> {
        if self.end > size {
            file.set_len(size)?;
        }
        self.forget();
        Ok(())
    }

    /// The file was cut: none is kept any more.
    pub(crate) fn forget(&mut self) {
        self.end = 0;
    }
}
