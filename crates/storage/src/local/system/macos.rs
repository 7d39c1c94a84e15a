//! Local files on macOS.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::path::Path;

use rustix::fs::{fcntl_nocache, fcntl_rdadvise, fstatfs, statfs, StatFs};

/// File system flag `MNT_LOCAL` of `<sys/mount.h>`: the file system is on a local disk.
const MNT_LOCAL: u32 = 0x0000_1000;

/// Name of the system call of `read_cached` in a trace; None because no system call of macOS reads only cached bytes.
pub(in crate::local) const READ_CACHED_CALL: Option<&str> = None;

/// Returns None, because no system call of macOS reads only cached bytes.
pub(in crate::local) fn read_cached(_file: &File, _room: &mut [u8], _offset: u64) -> Option<usize> {
    None
}

/// Advises the kernel to read a range into its cache ahead of time.
pub(in crate::local) fn will_need(file: &File, offset: u64, length: NonZeroU64) {
    // Errors are ignored, because this is only advice: without it, the following read waits for the disk.
    let _ = fcntl_rdadvise(file, offset, length.get());
}

/// Opens a file whose reads bypass the kernel's cache.
pub(in crate::local) fn open_direct(location: &Path) -> io::Result<File> {
    let file = File::open(location)?;
    fcntl_nocache(&file, true)?;
    Ok(file)
}

/// Returns whether an open file is on a network file system.
pub(in crate::local) fn is_on_network(file: &File) -> bool {
    fstatfs(file).is_ok_and(|status| !is_local(&status))
}

/// Returns whether a path is known to be on a local disk. Reads from local disks cannot block forever.
pub(crate) fn is_on_this_machine(location: &Path) -> bool {
    statfs(location).is_ok_and(|status| is_local(&status))
}

fn is_local(status: &StatFs) -> bool {
    status.f_flags & MNT_LOCAL != 0
}
