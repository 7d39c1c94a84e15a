//! Room on a local disk for copies of files.

use std::fs::File;

use rustix::fs::{fallocate, fstatvfs, FallocateFlags};
use rustix::io::Errno;

/// The free bytes of the file system of an open file.
pub(crate) fn free_bytes(file: &File) -> u64 {
    fstatvfs(file).map(|about| about.f_bavail.saturating_mul(about.f_frsize)).unwrap_or(u64::MAX)
}

/// Reserves room for this many bytes in an open file, so that jobs which copy at the same time do not count on the same
/// room. The error is the number of free bytes.
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
        // A file system that cannot reserve room has at least reported what is free now.
        _ => Ok(()),
    }
}
