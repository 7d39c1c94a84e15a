//! Local files on macOS.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::path::Path;

use rustix::fs::{fcntl_nocache, fcntl_rdadvise, fstatfs, statfs, StatFs};

/// `MNT_LOCAL` of `<sys/mount.h>`: the file system is on a disk of this machine.
const MNT_LOCAL: u32 = 0x0000_1000;

/// macOS has no call that reads from the cache alone.
pub(in crate::local) const READ_CACHED_CALL: Option<&str> = None;

/// Nothing is known to be in the cache.
pub(in crate::local) fn read_cached(_file: &File, _room: &mut [u8], _offset: u64) -> usize {
    0
}

/// Advises the kernel to read a range into its cache.
pub(in crate::local) fn will_need(file: &File, offset: u64, length: NonZeroU64) {
    // It is advice: where it is refused, the read that follows waits for the disk.
    let _ = fcntl_rdadvise(file, offset, length.get());
}

/// Opens a file whose reads pass by the kernel's cache.
pub(in crate::local) fn open_direct(location: &Path) -> io::Result<File> {
    let file = File::open(location)?;
    fcntl_nocache(&file, true)?;
    Ok(file)
}

/// Whether a file is on a file system that reads over a network.
pub(in crate::local) fn is_on_network(file: &File) -> bool {
    fstatfs(file).is_ok_and(|status| !is_local(&status))
}

/// Whether a path is known to be on a disk of this machine, so that a read from it ends.
pub(crate) fn is_on_this_machine(location: &Path) -> bool {
    statfs(location).is_ok_and(|status| is_local(&status))
}

fn is_local(status: &StatFs) -> bool {
    status.f_flags & MNT_LOCAL != 0
}
