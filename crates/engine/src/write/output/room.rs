//! Room on the disk for what will be written, reserved in large pieces: the kernel then does not count and reserve each
//! block, and the blocks lie side by side.

use std::fs::File;

use rustix::fs::{fallocate, fstatfs, FallocateFlags};

use crate::limits;

/// File systems that keep room without writing to it, by their numbers: ext4 and XFS. Others may fill it with zeros, or
/// do without compression of what lies in it.
const KEEPING: &[u32] = &[0x0000_ef53, 0x5846_5342];

/// Up to where room is kept behind the end of a file.
#[derive(Debug)]
pub(crate) struct Room {
    end: u64,
    is_asked_for: bool,
}

impl Room {
    /// None yet.
    pub(crate) fn of(file: &File) -> Self {
        let is_kept = fstatfs(file).is_ok_and(|about| KEEPING.contains(&(about.f_type as u32)));
        Self { end: 0, is_asked_for: is_kept }
    }

    /// Reserves room for bytes from `start` up to `end`, if the file is large enough for that
    /// to matter. Where there is none, it shows when it is written to.
    pub(crate) fn make(&mut self, file: &File, start: u64, end: u64) {
        if !self.is_asked_for || start < limits::ROOM_FROM_BYTES || end <= self.end {
            return;
        }
        let from = self.end.max(start);
        let length = limits::ROOM_AT_ONCE_BYTES.max(end - from);
        match fallocate(file, FallocateFlags::KEEP_SIZE, from, length) {
            Ok(()) => self.end = from + length,
            Err(_) => self.is_asked_for = false,
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
