//! Reads into uninitialized memory, because zeroing the memory first would cost as much as reading.

#![allow(unsafe_code)]

use std::fs::File;

use rustix::io::{pread, Errno};

/// Appends up to `length` bytes of a file to a buffer with enough capacity; returns the number of bytes read.
pub(super) fn append_from(file: &File, buffer: &mut Vec<u8>, length: usize, at: u64) -> Result<usize, Errno> {
    let end = buffer.len();
    let room = buffer.spare_capacity_mut().get_mut(..length).ok_or(Errno::FAULT)?;
    let (filled, _) = pread(file, room, at)?;
    let count = filled.len();
    // SAFETY: the kernel wrote `count` bytes after the end of the buffer, all of them within the capacity.
    unsafe { buffer.set_len(end + count) };
    Ok(count)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_read_than_was_requested_and_what_was_there_stays() {
        let file = File::open("/proc/self/exe").unwrap();
        let mut buffer = Vec::with_capacity(100);
        buffer.push(7);
        assert_eq!(append_from(&file, &mut buffer, 3, 1), Ok(3));
        assert_eq!(buffer, b"\x07ELF");
        assert_eq!(append_from(&file, &mut buffer, 1000, 0), Err(Errno::FAULT));
    }
}
