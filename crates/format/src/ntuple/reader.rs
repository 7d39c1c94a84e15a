//! A bounds-checked reader of an envelope's payload: little-endian numbers, strings and frames (sections "Basic Types"
//! and "Frames").

use crate::error::{ErrorKind, FormatError, Result};

/// Size of a record frame's header.
const RECORD_HEAD: usize = 8;
/// Size of a list frame's header: the frame size and the number of items.
const LIST_HEAD: usize = 12;

/// A part of an envelope with a read position.
#[derive(Debug, Clone)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
    end: usize,
}

macro_rules! numbers {
    ($($name:ident -> $type:ty;)*) => {$(
        pub(super) fn $name(&mut self) -> Result<$type> {
            const SIZE: usize = std::mem::size_of::<$type>();
            match self.bytes.get(self.position..self.end).and_then(|rest| rest.first_chunk::<SIZE>()) {
                Some(chunk) => {
                    self.position += SIZE;
                    Ok(<$type>::from_le_bytes(*chunk))
                }
                None => Err(self.truncated(SIZE as u64)),
            }
        }
    )*};
}

impl<'a> Reader<'a> {
    /// Create a reader at the first byte. Offsets in errors are relative to this byte.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0, end: bytes.len() }
    }

    /// Create a reader of `bytes` that starts at `position`.
    pub(super) fn at(bytes: &'a [u8], position: usize) -> Self {
        Self { bytes, position: position.min(bytes.len()), end: bytes.len() }
    }

    numbers! {
        u16 -> u16;
        u32 -> u32;
        i32 -> i32;
        u64 -> u64;
        i64 -> i64;
        f64 -> f64;
    }

    pub(super) fn position(&self) -> usize {
        self.position
    }

    pub(super) fn remaining(&self) -> usize {
        self.end - self.position
    }

    pub(super) fn take(&mut self, size: u64) -> Result<&'a [u8]> {
        let end = usize::try_from(size).ok().and_then(|size| self.position.checked_add(size));
        match end.filter(|end| *end <= self.end) {
            Some(end) => {
                let taken = &self.bytes[self.position..end];
                self.position = end;
                Ok(taken)
            }
            None => Err(self.truncated(size)),
        }
    }

    pub(super) fn skip(&mut self, size: u64) -> Result<()> {
        self.take(size).map(|_| ())
    }

    /// Read a string, replacing invalid UTF-8.
    pub(super) fn string(&mut self) -> Result<String> {
        Ok(String::from_utf8_lossy(self.string_bytes()?).into_owned())
    }

    pub(super) fn string_bytes(&mut self) -> Result<&'a [u8]> {
        let size = u64::from(self.u32()?);
        self.take(size)
    }

    /// Read feature flags (section "Feature Flags"). Fails if a flag is set, because no feature is supported.
    pub(super) fn feature_flags(&mut self) -> Result<()> {
        let mut set = Vec::new();
        for word in 0.. {
            let flags = self.i64()?;
            set.extend((0..63u64).filter(|bit| flags >> bit & 1 != 0).map(|bit| word * 63 + bit));
            if flags >= 0 {
                break;
            }
        }
        match set.first() {
            None => Ok(()),
            Some(_) => {
                let bits: Vec<String> = set.iter().take(8).map(u64::to_string).collect();
                let message =
                    format!("it uses unsupported features of a later RNTuple format (flags {})", bits.join(", "));
                Err(FormatError::unsupported(message))
            }
        }
    }

    /// Read a record frame and return a reader of its payload. Moves to the end of the frame, past any unknown
    /// contents.
    pub(super) fn record(&mut self) -> Result<Reader<'a>> {
        let start = self.position;
        let size = self.i64()?;
        let inner = usize::try_from(size).ok().filter(|size| *size >= RECORD_HEAD);
        self.frame(start, inner, size, RECORD_HEAD)
    }

    /// Read a list frame and return a reader of its payload and the number of items. Fails unless items of at least
    /// `item_size_min` bytes fit into the frame. Moves to the end of the frame.
    pub(super) fn list(&mut self, item_size_min: usize) -> Result<(Reader<'a>, usize)> {
        let start = self.position;
        let size = self.i64()?;
        let count = self.u32()? as usize;
        let inner = size.checked_neg().and_then(|size| usize::try_from(size).ok()).filter(|size| *size >= LIST_HEAD);
        let frame = self.frame(start, inner, size, LIST_HEAD)?;
        if count.saturating_mul(item_size_min.max(1)) > frame.remaining() {
            let message = format!("a list of {count} items exceeds the {} bytes of its frame", frame.remaining());
            return Err(FormatError::damaged(start as u64, message));
        }
        Ok((frame, count))
    }

    fn frame(&mut self, start: usize, size: Option<usize>, said: i64, head: usize) -> Result<Reader<'a>> {
        let end = size.and_then(|size| start.checked_add(size)).filter(|end| *end <= self.end);
        let Some(end) = end else {
            let message = format!("a frame of size {said} exceeds the {} bytes left", self.end - start);
            return Err(FormatError::damaged(start as u64, message));
        };
        self.position = end;
        Ok(Self { bytes: self.bytes, position: start + head, end })
    }

    fn truncated(&self, wanted: u64) -> FormatError {
        let message = format!("expected {wanted} more bytes, only {} left", self.remaining());
        FormatError::new(ErrorKind::Truncated, self.position as u64, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_frame_has_beyond_the_known_is_skipped() {
        let mut bytes = 20i64.to_le_bytes().to_vec();
        bytes.extend(7u32.to_le_bytes());
        bytes.extend([9; 8]); // contents that a later format version may add
        bytes.extend(5u16.to_le_bytes());
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.record().unwrap().u32().unwrap(), 7);
        assert_eq!(reader.u16().unwrap(), 5);
    }

    #[test]
    fn frames_that_do_not_fit_are_refused() {
        for size in [0i64, 7, 9, i64::MAX, -1, -12, i64::MIN] {
            let mut bytes = size.to_le_bytes().to_vec();
            assert!(Reader::new(&bytes).record().is_err(), "{size}");
            bytes.extend(1u32.to_le_bytes());
            assert!(Reader::new(&bytes).list(1).is_err(), "{size}");
        }
    }

    #[test]
    fn a_count_that_does_not_fit_its_frame_is_refused() {
        let mut bytes = (-16i64).to_le_bytes().to_vec();
        bytes.extend(2u32.to_le_bytes());
        bytes.extend([0; 4]);
        assert!(Reader::new(&bytes).list(4).is_err());
        assert!(Reader::new(&bytes).list(2).is_ok());
    }

    #[test]
    fn unknown_features_are_named() {
        let mut bytes = (i64::MIN + 2).to_le_bytes().to_vec();
        bytes.extend(1i64.to_le_bytes());
        let error = Reader::new(&bytes).feature_flags().unwrap_err();
        assert!(error.message.contains("flags 1, 63"), "{error}");
        assert!(Reader::new(&[0; 8]).feature_flags().is_ok());
    }
}
