//! A range of bytes, and a range with the buffer it is read into.

/// Where bytes lie in a file. Its end may lie behind 2^64: such a range is never read, only refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ByteRange {
    /// Of the first byte, from the start of the file.
    pub offset: u64,
    /// How many bytes.
    pub length: u64,
}

impl ByteRange {
    /// `length` bytes from `offset` on.
    pub fn new(offset: u64, length: u64) -> Self {
        Self { offset, length }
    }

    /// The offset behind the last byte; `None` if that does not fit.
    pub fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.length)
    }
}

/// One range to read and the buffer for its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeRead {
    /// What is wanted.
    pub range: ByteRange,
    /// After a successful read exactly the bytes of the range; unspecified before and after a failed one.
    pub bytes: Vec<u8>,
}

impl RangeRead {
    /// A read into a new buffer.
    pub fn new(range: ByteRange) -> Self {
        Self::reusing(range, Vec::new())
    }

    /// A read into a buffer that was used before. Its old bytes are overwritten: clearing it first only costs time.
    pub fn reusing(range: ByteRange, buffer: Vec<u8>) -> Self {
        Self { range, bytes: buffer }
    }
}
