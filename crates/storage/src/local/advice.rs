//! Telling the kernel what will be read, where it has not got that yet.

use std::fs::File;
use std::io::IoSliceMut;
use std::num::NonZeroU64;

use rustix::fs::{fadvise, fstatfs, Advice};
use rustix::io::{preadv2, ReadWriteFlags};

use crate::limits::{ADVICE_WINDOW_BYTES, KERNEL_READ_AHEAD_BYTES};
use crate::{ByteRange, RangeRead};

/// Reads what the kernel has of a range without waiting for more: how many bytes that were.
pub(super) fn read_cached(file: &File, room: &mut [u8], offset: u64) -> usize {
    // Where it does not tell, nothing is known to be there.
    preadv2(file, &mut [IoSliceMut::new(room)], offset, ReadWriteFlags::NOWAIT).unwrap_or(0)
}

/// Asks the kernel for the first bytes of a file, which is read from there on.
pub(super) fn expect_first(file: &File) {
    // It is advice, as below.
    let _ = fadvise(file, 0, NonZeroU64::new(ADVICE_WINDOW_BYTES), Advice::WillNeed);
}

/// Asks the kernel for ranges, so many ahead of those that are being read that it always has something to do.
pub(super) struct Adviser<'a> {
    file: &'a File,
    ranges: Vec<ByteRange>,
    next: usize,
    /// Of what was asked for and is not read yet.
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
            // What follows so closely the kernel reads ahead by itself, in larger pieces.
            let follows = before.is_some_and(|end| range.offset.wrapping_sub(end) < KERNEL_READ_AHEAD_BYTES);
            if let (Some(length), false) = (NonZeroU64::new(range.length), follows) {
                // It is advice: where it is not taken, reads take their time.
                let _ = fadvise(self.file, range.offset, Some(length), Advice::WillNeed);
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

/// File systems whose bytes come over a network, or through a program that may get them there, by the numbers of
/// statfs(2).
const NETWORK: &[u32] = &[
    0x6969,      // NFS
    0x00C3_6400, // Ceph
    0x0BD0_0BD0, // Lustre
    0x4750_4653, // GPFS
    0x1983_0326, // BeeGFS
    0x6573_5546, // FUSE: CephFS, GlusterFS, MooseFS, xrootdfs, CVMFS, s3fs
    0xFF53_4D42, // CIFS
    0xFE53_4D42, // SMB2
    0x5346_414F, // AFS
    0x6B41_4653, // AFS of the kernel
    0xAAD7_AAEA, // PanFS
    0x2003_0528, // PVFS, OrangeFS
    0x0102_1997, // 9p
];

/// Whether a file is on such a file system.
pub(super) fn is_on_network(file: &File) -> bool {
    // The type of the number differs between machines; its lower half is the number.
    fstatfs(file).is_ok_and(|about| NETWORK.contains(&(about.f_type as u32)))
}
