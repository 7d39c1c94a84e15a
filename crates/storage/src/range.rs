//! Byte ranges, with and without buffers for their bytes.

use std::ops::Range;

/// A range of bytes in a file. The end may exceed 2^64; reading such a range fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ByteRange {
    /// Offset of the first byte from the start of the file.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
}

impl ByteRange {
    /// Creates a range of `length` bytes that starts at `offset`.
    pub fn new(offset: u64, length: u64) -> Self {
        Self { offset, length }
    }

    /// Returns the offset after the last byte; `None` if the offset exceeds 64 bits.
    pub fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.length)
    }
}

/// A range to read, and the buffer for its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeRead {
    /// The requested range.
    pub range: ByteRange,
    /// Buffer for the bytes. Initialized bytes are kept, even beyond the range, to avoid zeroing the memory before the
    /// next read.
    buffer: Vec<u8>,
    /// Offset of the range's first byte in the buffer.
    start: usize,
    /// Offset in the buffer after the range's last byte, once all bytes have arrived.
    end: usize,
}

impl RangeRead {
    /// Creates a read into a new buffer.
    pub fn new(range: ByteRange) -> Self {
        Self::reusing(range, Vec::new())
    }

    /// Creates a read into a reused buffer, which is overwritten without zeroing the memory first.
    pub fn reusing(range: ByteRange, buffer: Vec<u8>) -> Self {
        Self { range, buffer, start: 0, end: 0 }
    }

    /// Returns the bytes of the range after a successful read. Before a read and after a failure, the bytes are
    /// unspecified.
    pub fn bytes(&self) -> &[u8] {
        self.buffer.get(self.place()).unwrap_or_default()
    }

    /// Returns the buffer, and the position of the requested bytes within the buffer.
    pub fn into_buffer(self) -> (Vec<u8>, Range<usize>) {
        let place = self.place();
        (self.buffer, place)
    }

    /// Returns the position of the requested bytes within the buffer.
    fn place(&self) -> Range<usize> {
        self.start..self.end.min(self.buffer.len())
    }

    /// Chooses the position of `length` bytes within the buffer. If the buffer is too small, allocates a new buffer.
    /// Returns None if out of memory.
    fn reserve(&mut self, length: usize) -> Option<()> {
        let most = length.checked_add(ALIGNMENT)?;
        if self.buffer.capacity() < most {
            self.buffer = Vec::new();
            self.buffer.try_reserve_exact(most).ok()?;
        }
        let aligned = (self.range.offset % ALIGNMENT as u64) as usize;
        self.start = aligned.wrapping_sub(self.buffer.as_ptr() as usize) % ALIGNMENT;
        self.end = self.start + length;
        Some(())
    }

    /// Makes space for `length` bytes. Returns true if the space consists of initialized bytes to overwrite, false if
    /// bytes must be appended, and None if out of memory.
    pub(crate) fn prepare(&mut self, length: usize) -> Option<bool> {
        self.reserve(length)?;
        let reused = self.buffer.len() >= self.end;
        if !reused {
            self.buffer.resize(self.start, 0);
        }
        Some(reused)
    }

    /// Returns space for `length` bytes, all of which the caller must overwrite; None if out of memory.
    pub(crate) fn room_for(&mut self, length: u64) -> Option<&mut [u8]> {
        self.reserve(usize::try_from(length).ok()?)?;
        if self.buffer.len() < self.end {
            self.buffer.resize(self.end, 0);
        }
        Some(self.room())
    }

    /// Returns the initialized part of the space for the range.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        let place = self.place();
        &mut self.buffer[place]
    }

    /// Lends the buffer until `restore` is called. Returns the buffer, and the position of the requested bytes within
    /// the buffer.
    pub(crate) fn lend(&mut self) -> (Vec<u8>, Range<usize>) {
        let place = self.place();
        (std::mem::take(&mut self.buffer), place)
    }

    /// Takes back the lent buffer.
    pub(crate) fn restore(&mut self, buffer: Vec<u8>) {
        self.buffer = buffer;
    }

    /// Returns the buffer, to which the requested bytes must be appended. The buffer already ends at the position of
    /// the first byte.
    pub(crate) fn buffer_mut(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }
}

/// The address of each byte in a buffer equals its position in the file, modulo this number (the size of a cache line).
/// On AMD processors, copying a page is six times slower if the offset of the destination within its page exceeds the
/// offset of the source by up to 31 bytes, and malloc places every large buffer 16 bytes after the start of a page.
const ALIGNMENT: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_lie_in_memory_as_they_do_in_the_file() {
        for offset in [0, 1, 100, 4095, u64::MAX - 5] {
            for buffer in [Vec::new(), vec![7; 500]] {
                let mut read = RangeRead::reusing(ByteRange::new(offset, 300), buffer);
                let reused = read.prepare(300).unwrap();
                assert_eq!(read.bytes().len(), if reused { 300 } else { 0 });
                assert_eq!(read.bytes().as_ptr() as u64 % 64, offset % 64);
            }
        }
    }

    #[test]
    fn bytes_behind_a_short_read_stay_for_the_next_long_one() {
        let mut read = RangeRead::reusing(ByteRange::new(0, 10), vec![7; 500]);
        assert_eq!(read.room_for(10).unwrap().len(), 10);
        let (buffer, place) = read.into_buffer();
        assert_eq!((buffer.len(), place.len()), (500, 10));
        let mut read = RangeRead::reusing(ByteRange::new(0, 300), buffer);
        assert_eq!(read.room_for(300).unwrap(), [7; 300]);
        assert_eq!(read.prepare(200), Some(true));
        assert_eq!(read.bytes(), [7; 200]);
    }

    #[test]
    fn memory_that_is_not_there_is_refused() {
        assert_eq!(RangeRead::new(ByteRange::new(0, u64::MAX)).prepare(usize::MAX), None);
        assert_eq!(RangeRead::new(ByteRange::new(0, u64::MAX)).prepare(usize::MAX / 2), None);
    }
}
