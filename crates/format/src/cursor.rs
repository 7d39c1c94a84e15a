//! A reading position in bytes: big-endian numbers, ROOT's strings and version headers, always within bounds.

use crate::error::{ErrorKind, FormatError, Result};
use crate::marks::BYTE_COUNT_MASK;

/// A position in a slice of big-endian bytes.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
}

/// The version header of a streamed object: `ReadVersion` of TBufferFile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionHeader {
    /// The class version; 0 means that a checksum follows, as for classes without ClassDef.
    pub version: i16,
    /// Position behind the object, if it has a byte count.
    pub end: Option<usize>,
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident -> $type:ty;)*) => {$(
        $(#[$doc])*
        #[inline]
        pub fn $name(&mut self) -> Result<$type> {
            const SIZE: usize = std::mem::size_of::<$type>();
            match self.bytes.get(self.position..).and_then(|rest| rest.first_chunk::<SIZE>()) {
                Some(chunk) => {
                    self.position += SIZE;
                    Ok(<$type>::from_be_bytes(*chunk))
                }
                None => Err(self.truncated(SIZE)),
            }
        }
    )*};
}

/// Text of a file; bytes that are not UTF-8 are replaced.
pub fn text_of(bytes: &[u8]) -> String {
    // Nearly all texts are valid UTF-8, and checking the whole first is faster than the lossy conversion.
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes).into_owned(), str::to_owned)
}

impl<'a> Cursor<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// Starts at `position`, which may lie behind the end (every read then fails).
    pub fn at(bytes: &'a [u8], position: usize) -> Self {
        Self { bytes, position: position.min(bytes.len()) }
    }

    numbers! {
        /// Unsigned byte.
        u8 -> u8;
        /// Signed byte.
        i8 -> i8;
        /// Two bytes, unsigned.
        u16 -> u16;
        /// Two bytes, signed.
        i16 -> i16;
        /// Four bytes, unsigned.
        u32 -> u32;
        /// Four bytes, signed.
        i32 -> i32;
        /// Eight bytes, unsigned.
        u64 -> u64;
        /// Eight bytes, signed.
        i64 -> i64;
        /// Float.
        f32 -> f32;
        /// Double.
        f64 -> f64;
    }

    /// Current position from the start of the slice.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Bytes not read yet.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// What is not read yet.
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.position..]
    }

    /// Steps over everything up to a position. It must not be before the current one: going back would let damaged
    /// bytes make a decoder read them for ever.
    pub fn skip_to(&mut self, position: usize) -> Result<()> {
        let size = position.checked_sub(self.position).ok_or_else(|| {
            let message = format!("an object ends at {position}, before its members do");
            FormatError::damaged(self.position as u64, message)
        })?;
        self.skip(size)
    }

    /// Steps over `size` bytes.
    pub fn skip(&mut self, size: usize) -> Result<()> {
        self.take(size).map(|_| ())
    }

    /// The next `size` bytes.
    pub fn take(&mut self, size: usize) -> Result<&'a [u8]> {
        let end = self.position.checked_add(size).filter(|end| *end <= self.bytes.len());
        match end {
            Some(end) => {
                let taken = &self.bytes[self.position..end];
                self.position = end;
                Ok(taken)
            }
            None => Err(self.truncated(size)),
        }
    }

    /// A count from the file. Fails unless `count` elements of at least `element_size_min` bytes fit into the bytes
    /// left.
    pub fn checked_count(&self, count: i64, element_size_min: usize) -> Result<usize> {
        usize::try_from(count)
            .ok()
            .filter(|n| n.saturating_mul(element_size_min.max(1)) <= self.remaining())
            .ok_or_else(|| {
                FormatError::damaged(
                    self.position as u64,
                    format!("a count of {count} does not fit into the {} bytes left", self.remaining()),
                )
            })
    }

    /// The length of a TString: one byte, or 255 and four bytes (TString::ReadBuffer).
    pub fn string_length(&mut self) -> Result<usize> {
        let short = self.u8()?;
        if short < 255 {
            return Ok(usize::from(short));
        }
        let long = self.u32()?;
        self.checked_count(i64::from(long), 1)
    }

    /// Bytes of a TString.
    pub fn string_bytes(&mut self) -> Result<&'a [u8]> {
        let size = self.string_length()?;
        self.take(size)
    }

    /// A TString as text; bytes that are not UTF-8 are replaced.
    pub fn string(&mut self) -> Result<String> {
        Ok(text_of(self.string_bytes()?))
    }

    /// A C string up to its zero byte.
    pub fn c_string(&mut self) -> Result<String> {
        let rest = &self.bytes[self.position..];
        let size = rest.iter().position(|byte| *byte == 0).ok_or_else(|| self.truncated(rest.len() + 1))?;
        let text = text_of(&rest[..size]);
        self.position += size + 1;
        Ok(text)
    }

    /// Byte count, if there is one, and version of a streamed object (TBufferFile::ReadVersion).
    pub fn version_header(&mut self) -> Result<VersionHeader> {
        let start = self.position;
        let count = self.u32();
        match count {
            Ok(count) if count & BYTE_COUNT_MASK != 0 => {
                let size = (count & !BYTE_COUNT_MASK) as usize;
                let end = self.position.saturating_add(size);
                if end > self.bytes.len() {
                    return Err(self.truncated(size));
                }
                let version = self.i16()?;
                Ok(VersionHeader { version, end: Some(end) })
            }
            _ => {
                self.position = start;
                Ok(VersionHeader { version: self.i16()?, end: None })
            }
        }
    }

    /// Steps to the end of an object whose header was read, over members that were not read.
    pub fn finish(&mut self, header: VersionHeader) -> Result<()> {
        match header.end {
            Some(end) => self.skip_to(end),
            None => Ok(()),
        }
    }

    fn truncated(&self, wanted: usize) -> FormatError {
        FormatError::new(
            ErrorKind::Truncated,
            self.position as u64,
            format!("{wanted} bytes wanted, {} left", self.remaining()),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_cannot_end_before_its_members() {
        // A byte count of 4, version 1, and a member of four bytes where two are left.
        let bytes = [0x40, 0, 0, 4, 0, 1, 0, 0, 0, 7, 0, 0];
        let mut cursor = Cursor::new(&bytes);
        let header = cursor.version_header().unwrap();
        assert_eq!(cursor.u32().unwrap(), 7);
        let error = cursor.finish(header).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Damaged, "{error}");
        assert_eq!(cursor.position(), 10);
    }
}
