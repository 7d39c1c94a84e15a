//! Announces to the kernel what will be read, where its cache does not have that yet.

use std::fs::File;
use std::num::NonZeroU64;

use super::system::will_need;
use crate::limits::{ADVICE_WINDOW_BYTES, KERNEL_READ_AHEAD_BYTES};
use crate::{ByteRange, RangeRead};

/// Announces the first bytes of a file, which is read from there on.
pub(super) fn expect_first(file: &File) {
    if let Some(length) = NonZeroU64::new(ADVICE_WINDOW_BYTES) {
        will_need(file, 0, length);
    }
}

/// Announces ranges to the kernel, far enough before the reads that it always has something to do.
pub(super) struct Adviser<'a> {
    file: &'a File,
    ranges: Vec<ByteRange>,
    next: usize,
    /// Of the ranges that were announced and not read yet.
    ahead_bytes: u64,
}

impl<'a> Adviser<'a> {
    pub(super) fn new(file: &'a File, reads: &[RangeRead]) -> Self {
        Self { file, ranges: reads.iter().map(|read| read.range).collect(), next: 0, ahead_bytes: 0 }
    }

    /// The range of this number is read next.
    pub(super) fn before(&mut self, index: usize) {
        self.next = self.next.max(index);
        while self.next < self.ranges.len() && self.ahead_bytes < ADVICE_WINDOW_BYTES {
            let range = self.ranges[self.next];
            let before = self.next.checked_sub(1).and_then(|before| self.ranges[before].end());
            // The kernel's own readahead reads bytes that follow so closely, in larger pieces.
            let follows = before.is_some_and(|end| range.offset.wrapping_sub(end) < KERNEL_READ_AHEAD_BYTES);
            if let (Some(length), false) = (NonZeroU64::new(range.length), follows) {
                will_need(self.file, range.offset, length);
            }
            self.ahead_bytes = self.ahead_bytes.saturating_add(range.length);
            self.next += 1;
        }
    }

    /// The range of this number was read.
    pub(super) fn after(&mut self, index: usize) {
        self.ahead_bytes = self.ahead_bytes.saturating_sub(self.ranges[index].length);
    }
}
