//! Local files on Linux.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::path::Path;

use rustix::fs::{fadvise, fstatfs, open, statfs, Advice, Mode, OFlags};
use rustix::io::{preadv2, ReadWriteFlags};

/// The name of the call of `read_cached` in a trace; None on a system that has no such call.
pub(in crate::local) const READ_CACHED_CALL: Option<&str> = Some("preadv2");

/// Reads the start of a range as far as the kernel's cache has it, without waiting for the disk; returns how many bytes
/// were read.
pub(in crate::local) fn read_cached(file: &File, room: &mut [u8], offset: u64) -> usize {
    // Some file systems refuse such a read: then nothing is known to be in the cache.
    preadv2(file, &mut [IoSliceMut::new(room)], offset, ReadWriteFlags::NOWAIT).unwrap_or(0)
}

/// Advises the kernel to read a range into its cache.
pub(in crate::local) fn will_need(file: &File, offset: u64, length: NonZeroU64) {
    // It is advice: where it is refused, the read that follows waits for the disk.
    let _ = fadvise(file, offset, Some(length), Advice::WillNeed);
}

/// Opens a file whose reads pass by the kernel's cache; an error where the file system cannot do that.
pub(in crate::local) fn open_direct(location: &Path) -> io::Result<File> {
    let file = open(location, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::DIRECT, Mode::empty())?;
    Ok(File::from(file))
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

/// File systems on disks and in memory of this machine, by the same numbers.
const ON_THIS_MACHINE: &[u32] = &[
    0x0000_ef53, // ext2, ext3, ext4
    0x5846_5342, // xfs
    0x9123_683e, // btrfs
    0x0102_1994, // tmpfs
    0x794c_7630, // overlay
    0x2fc1_2fc1, // zfs
    0xf2f5_2010, // f2fs
    0x8584_58f6, // ramfs
    0x7371_7368, // squashfs
    0x0000_9660, // iso9660
];

/// Whether a file is on a file system that reads over a network.
pub(in crate::local) fn is_on_network(file: &File) -> bool {
    // The type of the number differs between machines; its lower half is the number.
    fstatfs(file).is_ok_and(|status| NETWORK.contains(&(status.f_type as u32)))
}

/// Whether a path is known to be on a disk of this machine, so that a read from it ends.
pub(crate) fn is_on_this_machine(location: &Path) -> bool {
    statfs(location).is_ok_and(|status| ON_THIS_MACHINE.contains(&(status.f_type as u32)))
}
