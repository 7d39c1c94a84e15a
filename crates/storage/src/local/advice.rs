//! Advises the kernel to read ranges into its cache ahead of time.

use std::fs::File;
use std::num::NonZeroU64;

use super::system::will_need;
use crate::limits::{ADVICE_WINDOW_BYTES, KERNEL_READ_AHEAD_BYTES};
use crate::{ByteRange, RangeRead};

/// Advises the kernel to read the start of a file that will be read sequentially.
pub(super) fn expect_first(file: &File) {
    if let Some(length) = NonZeroU64::new(ADVICE_WINDOW_BYTES) {
        will_need(file, 0, length);
    }
}

/// Advises the kernel to read ranges ahead of time, far enough ahead to keep the disk busy.
pub(super) struct Adviser<'a> {
    file: &'a File,
    ranges: Vec<ByteRange>,
    next: usize,
    /// Number of announced bytes that have not been read yet.
    ahead_bytes: u64,
}

impl<'a> Adviser<'a> {
    pub(super) fn new(file: &'a File, reads: &[RangeRead]) -> Self {
        Self { file, ranges: reads.iter().map(|read| read.range).collect(), next: 0, ahead_bytes: 0 }
    }

    /// Announces the next ranges to the kernel. Called before the range with this index is read.
    pub(super) fn before(&mut self, index: usize) {
        self.next = self.next.max(index);
        while self.next < self.ranges.len() && self.ahead_bytes < ADVICE_WINDOW_BYTES {
            let range = self.ranges[self.next];
            let before = self.next.checked_sub(1).and_then(|before| self.ranges[before].end());
            // Ranges this close to the previous range are already covered by the kernel's own readahead, in larger
            // pieces.
            let follows = before.is_some_and(|end| range.offset.wrapping_sub(end) < KERNEL_READ_AHEAD_BYTES);
            if let (Some(length), false) = (NonZeroU64::new(range.length), follows) {
                will_need(self.file, range.offset, length);
            }
            self.ahead_bytes = self.ahead_bytes.saturating_add(range.length);
            self.next += 1;
        }
    }

    /// Updates the number of announced bytes. Called after the range with this index was read.
    pub(super) fn after(&mut self, index: usize) {
        self.ahead_bytes = self.ahead_bytes.saturating_sub(self.ranges[index].length);
    }
}
