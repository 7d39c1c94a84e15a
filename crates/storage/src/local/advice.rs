//! Telling the kernel what will be read, where it has not got that yet.

use std::fs::File;
use std::io::IoSliceMut;
use std::num::NonZeroU64;

use rustix::fs::{fadvise, fstatfs, Advice};
use rustix::io::{preadv2, Errno, ReadWriteFlags};

use crate::limits::{ADVICE_WINDOW_BYTES, KERNEL_READ_AHEAD_BYTES};
use crate::{ByteRange, RangeRead};

/// Whether the kernel has the first byte of a range; None where it does not say. It takes half a microsecond.
pub(super) fn is_cached(file: &File, range: ByteRange) -> Option<bool> {
    let mut byte = [0];
    match preadv2(file, &mut [IoSliceMut::new(&mut byte)], range.offset, ReadWriteFlags::NOWAIT) {
        Ok(_) => Some(true),
        Err(Errno::AGAIN) => Some(false),
        Err(_) => None,
    }
}

/// Whether some of what is to be read has to come from the disk or from a server, by its first and its last range.
pub(super) fn is_cold(file: &File, reads: &[RangeRead]) -> bool {
    let mut wanted = reads.iter().map(|read| read.range).filter(|range| range.length > 0);
    let (first, last) = (wanted.next(), wanted.next_back());
    first.into_iter().chain(last).any(|range| is_cached(file, range) != Some(true))
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
