//! Local files on Linux.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::path::Path;

use rustix::fs::{fadvise, fstatfs, open, statfs, Advice, Mode, OFlags};
use rustix::io::{preadv2, Errno, ReadWriteFlags};

/// Name of the system call of `read_cached` in a trace; None on systems without a call that reads only cached bytes.
pub(in crate::local) const READ_CACHED_CALL: Option<&str> = Some("preadv2");

/// Reads the cached start of a range from the kernel's cache, without waiting for the disk. Returns the number of bytes
/// read, or None if the file system does not support such reads.
pub(in crate::local) fn read_cached(file: &File, room: &mut [u8], offset: u64) -> Option<usize> {
    match preadv2(file, &mut [IoSliceMut::new(room)], offset, ReadWriteFlags::NOWAIT) {
        Ok(count) => Some(count),
        Err(Errno::AGAIN) => Some(0),
        Err(_) => None,
    }
}

/// Advises the kernel to read a range into its cache ahead of time.
pub(in crate::local) fn will_need(file: &File, offset: u64, length: NonZeroU64) {
    // Errors are ignored, because this is only advice: without it, the following read waits for the disk.
    let _ = fadvise(file, offset, Some(length), Advice::WillNeed);
}

/// Opens a file with O_DIRECT; fails if the file system does not support that.
pub(in crate::local) fn open_direct(location: &Path) -> io::Result<File> {
    let file = open(location, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::DIRECT, Mode::empty())?;
    Ok(File::from(file))
}

/// Types of file systems that read over a network, or through a user-space program that may use a network. The values
/// are the type numbers in statfs(2).
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
    0x6B41_4653, // AFS in the kernel
    0xAAD7_AAEA, // PanFS
    0x2003_0528, // PVFS, OrangeFS
    0x0102_1997, // 9p
];

/// Types of file systems on local disks or in memory. The values are the type numbers in statfs(2).
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

/// Returns whether an open file is on a network file system.
pub(in crate::local) fn is_on_network(file: &File) -> bool {
    // The type of this field differs between platforms. The lower 32 bits contain the file system type.
    fstatfs(file).is_ok_and(|status| NETWORK.contains(&(status.f_type as u32)))
}

/// Returns whether a path is known to be on a local disk. Reads from local disks cannot block forever.
pub(crate) fn is_on_this_machine(location: &Path) -> bool {
    statfs(location).is_ok_and(|status| ON_THIS_MACHINE.contains(&(status.f_type as u32)))
}
