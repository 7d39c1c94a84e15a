//! A range of bytes, and a range with the buffer it is read into.

use std::ops::Range;

/// Where bytes lie in a file. Its end may lie beyond 2^64: such a range is never read, only refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ByteRange {
    /// Offset of the first byte, from the start of the file.
    pub offset: u64,
    /// How many bytes.
    pub length: u64,
}

impl ByteRange {
    /// `length` bytes from `offset` on.
    pub fn new(offset: u64, length: u64) -> Self {
        Self { offset, length }
    }

    /// The offset after the last byte; `None` if that does not fit.
    pub fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.length)
    }
}

/// One range to read and the buffer for its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeRead {
    /// The wanted range.
    pub range: ByteRange,
    /// Its bytes that were written once stay, also behind those of the range: the next read need not clear them.
    buffer: Vec<u8>,
    /// Where in the buffer the bytes begin.
    start: usize,
    /// Where they end, once all have come.
    end: usize,
}

impl RangeRead {
    /// A read into a new buffer.
    pub fn new(range: ByteRange) -> Self {
        Self::reusing(range, Vec::new())
    }

    /// A read into a buffer that was used before. Its old bytes are overwritten: clearing it first only costs time.
    pub fn reusing(range: ByteRange, buffer: Vec<u8>) -> Self {
        Self { range, buffer, start: 0, end: 0 }
    }

    /// After a successful read exactly the bytes of the range; unspecified before and after a failed one.
    pub fn bytes(&self) -> &[u8] {
        self.buffer.get(self.place()).unwrap_or_default()
    }

    /// The buffer, and where in it the bytes lie.
    pub fn into_buffer(self) -> (Vec<u8>, Range<usize>) {
        let place = self.place();
        (self.buffer, place)
    }

    /// Where the bytes lie, as far as they have come.
    fn place(&self) -> Range<usize> {
        self.start..self.end.min(self.buffer.len())
    }

    /// Finds the place of `length` bytes, in a new buffer if they do not fit into this one. None if there is not so
    /// much memory.
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

    /// Makes room for `length` bytes after the start. True if that room has bytes already that may be overwritten;
    /// false if bytes are to be appended. None if there is not so much memory.
    pub(crate) fn prepare(&mut self, length: usize) -> Option<bool> {
        self.reserve(length)?;
        let reused = self.buffer.len() >= self.end;
        if !reused {
            self.buffer.resize(self.start, 0);
        }
        Some(reused)
    }

    /// Room for `length` bytes, all of which are to be overwritten; None if there is not so much memory.
    pub(crate) fn room_for(&mut self, length: u64) -> Option<&mut [u8]> {
        self.reserve(usize::try_from(length).ok()?)?;
        if self.buffer.len() < self.end {
            self.buffer.resize(self.end, 0);
        }
        Some(self.room())
    }

    /// The room that has bytes already.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        let place = self.place();
        &mut self.buffer[place]
    }

    /// Gives away the buffer with its room, which is to come back.
    pub(crate) fn lend(&mut self) -> (Vec<u8>, Range<usize>) {
        let place = self.place();
        (std::mem::take(&mut self.buffer), place)
    }

    /// The buffer has come back.
    pub(crate) fn restore(&mut self, buffer: Vec<u8>) {
        self.buffer = buffer;
    }

    /// The buffer with its start, to be filled at its end.
    pub(crate) fn buffer_mut(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }
}

/// A byte comes to lie in its cache line as it does in the file, and so in the kernel's page. Copying to a place that
/// is up to 31 bytes further in its page is six times slower on AMD's processors, and malloc puts every large buffer
/// 16 bytes after the start of a page.
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
