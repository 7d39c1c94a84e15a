//! Disk space for local copies of files.

use std::fs::File;

use rustix::fs::{fallocate, fstatvfs, FallocateFlags};
use rustix::io::Errno;

/// Returns the number of free bytes in the file system that contains an open file.
pub(crate) fn free_bytes(file: &File) -> u64 {
    fstatvfs(file).map(|about| about.f_bavail.saturating_mul(about.f_frsize)).unwrap_or(u64::MAX)
}

/// Reserves disk space for an open file, so that several jobs that copy at the same time do not count on the same free
/// space. The error contains the number of free bytes.
pub(crate) fn reserve(file: &File, size_bytes: u64) -> Result<(), u64> {
    if size_bytes == 0 {
        return Ok(());
    }
    let free = free_bytes(file);
    if free < size_bytes {
        return Err(free);
    }
    match fallocate(file, FallocateFlags::empty(), 0, size_bytes) {
        Err(Errno::NOSPC | Errno::FBIG | Errno::DQUOT) => Err(free),
        // If the file system does not support fallocate, the check above has at least found enough free space.
        _ => Ok(()),
    }
}
