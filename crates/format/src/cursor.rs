//! A bounds-checked reader of big-endian numbers, ROOT strings and version headers.
//!
//! ```
//! use branchline_format::cursor::Cursor;
//!
//! let mut cursor = Cursor::new(&[0, 0, 0, 7, 1]);
//! assert_eq!(cursor.u32(), Ok(7));
//! assert!(cursor.u32().is_err());
//! ```

use crate::error::{ErrorKind, FormatError, Result};
use crate::marks::BYTE_COUNT_MASK;

/// A slice of big-endian bytes with a read position.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
}

/// The version header of a streamed object, as read by TBufferFile::ReadVersion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionHeader {
    /// The class version. 0 for classes without ClassDef, whose header continues with a checksum.
    pub version: i16,
    /// End of the object; None if the header has no byte count.
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

/// Decode a string from a file, replacing invalid UTF-8.
pub fn text_of(bytes: &[u8]) -> String {
    // Most strings are valid UTF-8, and validating them first is faster than the lossy conversion.
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes).into_owned(), str::to_owned)
}

impl<'a> Cursor<'a> {
    /// Create a cursor at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// Create a cursor at `position`, or at the end if `position` is out of bounds. In that case every read fails.
    pub fn at(bytes: &'a [u8], position: usize) -> Self {
        Self { bytes, position: position.min(bytes.len()) }
    }

    numbers! {
        /// Read an unsigned byte.
        u8 -> u8;
        /// Read a signed byte.
        i8 -> i8;
        /// Read an unsigned 16-bit integer.
        u16 -> u16;
        /// Read a signed 16-bit integer.
        i16 -> i16;
        /// Read an unsigned 32-bit integer.
        u32 -> u32;
        /// Read a signed 32-bit integer.
        i32 -> i32;
        /// Read an unsigned 64-bit integer.
        u64 -> u64;
        /// Read a signed 64-bit integer.
        i64 -> i64;
        /// Read a 32-bit float.
        f32 -> f32;
        /// Read a 64-bit float.
        f64 -> f64;
    }

    /// Current position, relative to the start of the slice.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Number of unread bytes.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// The unread bytes.
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.position..]
    }

    /// Skip to `position`. Fails if `position` is before the current position, because damaged bytes that move the
    /// cursor back could put a decoder into an infinite loop.
    pub fn skip_to(&mut self, position: usize) -> Result<()> {
        let size = position.checked_sub(self.position).ok_or_else(|| {
            let message = format!("an object ends at {position}, before the end of its members");
            FormatError::damaged(self.position as u64, message)
        })?;
        self.skip(size)
    }

    /// Skip `size` bytes.
    pub fn skip(&mut self, size: usize) -> Result<()> {
        self.take(size).map(|_| ())
    }

    /// Read the next `size` bytes.
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

    /// Validate a count read from the file. Fails unless `count` elements of at least `element_size_min` bytes fit into
    /// the unread bytes.
    pub fn checked_count(&self, count: i64, element_size_min: usize) -> Result<usize> {
        usize::try_from(count)
            .ok()
            .filter(|n| n.saturating_mul(element_size_min.max(1)) <= self.remaining())
            .ok_or_else(|| {
                FormatError::damaged(
                    self.position as u64,
                    format!("a count of {count} exceeds the {} bytes left", self.remaining()),
                )
            })
    }

    /// Read the length of a TString: one byte, or the byte 255 followed by a four-byte length (TString::ReadBuffer).
    pub fn string_length(&mut self) -> Result<usize> {
        let short = self.u8()?;
        if short < 255 {
            return Ok(usize::from(short));
        }
        let long = self.u32()?;
        self.checked_count(i64::from(long), 1)
    }

    /// Read the bytes of a TString.
    pub fn string_bytes(&mut self) -> Result<&'a [u8]> {
        let size = self.string_length()?;
        self.take(size)
    }

    /// Read a TString, replacing invalid UTF-8.
    pub fn string(&mut self) -> Result<String> {
        Ok(text_of(self.string_bytes()?))
    }

    /// Read a null-terminated string.
    pub fn c_string(&mut self) -> Result<String> {
        let rest = &self.bytes[self.position..];
        let size = rest.iter().position(|byte| *byte == 0).ok_or_else(|| self.truncated(rest.len() + 1))?;
        let text = text_of(&rest[..size]);
        self.position += size + 1;
        Ok(text)
    }

    /// Read the optional byte count and the version of a streamed object (TBufferFile::ReadVersion).
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

    /// Skip the remaining members of the object with this header.
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
            format!("expected {wanted} more bytes, only {} left", self.remaining()),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_cannot_end_before_its_members() {
        // A byte count of 4 leaves two bytes for the member, but the member takes four.
        let bytes = [0x40, 0, 0, 4, 0, 1, 0, 0, 0, 7, 0, 0];
        let mut cursor = Cursor::new(&bytes);
        let header = cursor.version_header().unwrap();
        assert_eq!(cursor.u32().unwrap(), 7);
        let error = cursor.finish(header).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Damaged, "{error}");
        assert_eq!(cursor.position(), 10);
    }
}
