//! The parts of a file that are in memory, and the ranges that a decoder still needs.
//!
//! Decoders do no I/O: they get bytes from [`LoadedBytes`]. If bytes are missing, they return
//! [`DecodeError::MissingBytes`]. The caller then reads that range, adds it, and calls the decoder again.
//!
//! ```
//! use branchline_format::file::loaded_bytes::{DecodeError, LoadedBytes};
//!
//! let mut loaded = LoadedBytes::new(100);
//! assert_eq!(loaded.get(0, 4), Err(DecodeError::MissingBytes { offset: 0, size: 4 }));
//! loaded.add(0, b"root".to_vec().into());
//! assert_eq!(loaded.get(0, 4), Ok(&b"root"[..]));
//! ```

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::error::{ErrorKind, FormatError};

/// A byte range of a file that a decoder needs but that is not in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MissingRange {
    /// Offset in the file.
    pub offset: u64,
    /// Size in bytes.
    pub size: u64,
}

/// Reason why a decoder returned no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecodeError {
    /// A range of the file is not in memory. Add the range to [`LoadedBytes`] and call the decoder again.
    MissingBytes {
        /// Offset in the file.
        offset: u64,
        /// Size in bytes.
        size: u64,
    },
    /// The bytes are damaged or unsupported; more bytes would not help.
    Format(FormatError),
}

impl From<FormatError> for DecodeError {
    fn from(error: FormatError) -> Self {
        DecodeError::Format(error)
    }
}

/// The parts of a file that are in memory.
#[derive(Debug, Clone, Default)]
pub struct LoadedBytes {
    file_size: u64,
    /// Pieces by file offset. No piece contains another piece, so a piece that starts later also ends later.
    pieces: BTreeMap<u64, Bytes>,
}

impl LoadedBytes {
    /// Create an empty set of pieces for a file of `file_size` bytes.
    pub fn new(file_size: u64) -> Self {
        Self { file_size, pieces: BTreeMap::new() }
    }

    /// Create a set with the contents of a whole file.
    pub fn whole(bytes: Bytes) -> Self {
        Self { file_size: bytes.len() as u64, pieces: BTreeMap::from([(0, bytes)]) }
    }

    /// Size of the whole file, including parts that are not in memory.
    pub fn file_size(&self) -> u64 {
        self.file_size
    }

    /// Add bytes that start at file offset `offset`.
    pub fn add(&mut self, offset: u64, bytes: Bytes) {
        let end = offset.saturating_add(bytes.len() as u64);
        let ends = |(start, piece): (&u64, &Bytes)| *start + piece.len() as u64;
        if self.pieces.range(..=offset).next_back().is_some_and(|before| ends(before) >= end) {
            return;
        }
        while let Some(within) = self.pieces.range(offset..).next().filter(|after| ends(*after) <= end) {
            let start = *within.0;
            self.pieces.remove(&start);
        }
        self.pieces.insert(offset, bytes);
    }

    /// The bytes of a range, without a copy; None unless a single piece contains the whole range.
    pub fn share(&self, offset: u64, size: u64) -> Option<Bytes> {
        let (piece, start) = self.piece(offset, size)?;
        Some(piece.slice(start..start + size as usize))
    }

    fn piece(&self, offset: u64, size: u64) -> Option<(&Bytes, usize)> {
        let end = offset.checked_add(size)?;
        let (start, piece) = self.pieces.range(..=offset).next_back()?;
        (end <= start + piece.len() as u64).then_some((piece, (offset - start) as usize))
    }

    /// The `size` bytes at `offset`. Fails with [`DecodeError::MissingBytes`] if they are not in memory, and with a
    /// format error if they are outside the file.
    pub fn get(&self, offset: u64, size: u64) -> Result<&[u8], DecodeError> {
        let end = offset.checked_add(size).filter(|end| *end <= self.file_size);
        if end.is_none() {
            return Err(DecodeError::Format(FormatError::new(
                ErrorKind::Truncated,
                offset,
                format!("a range of {size} bytes exceeds the file, which has {} bytes", self.file_size),
            )));
        }
        match self.piece(offset, size) {
            Some((bytes, start)) => Ok(&bytes[start..start + size as usize]),
            None => Err(DecodeError::MissingBytes { offset, size }),
        }
    }

    /// Up to `size` bytes at `offset`, fewer at the end of the file. Fails like [`LoadedBytes::get`].
    pub fn get_up_to(&self, offset: u64, size: u64) -> Result<&[u8], DecodeError> {
        let size = size.min(self.file_size.saturating_sub(offset)).max(1);
        self.get(offset, size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(pieces: &[(u64, u64)]) -> LoadedBytes {
        let mut loaded = LoadedBytes::new(1000);
        for (start, end) in pieces {
            loaded.add(*start, (*start..*end).map(|offset| offset as u8).collect::<Vec<u8>>().into());
        }
        loaded
    }

    #[test]
    fn bytes_are_found_in_any_piece() {
        let loaded = loaded(&[(500, 600), (100, 200), (150, 250), (120, 130), (90, 210), (0, 10)]);
        for (offset, size) in [(0, 10), (90, 120), (100, 100), (120, 10), (205, 45), (500, 100), (599, 1)] {
            let bytes = loaded.get(offset, size).unwrap();
            assert_eq!((bytes[0], bytes.len() as u64), (offset as u8, size));
        }
        for (offset, size) in [(5, 10), (10, 1), (95, 150), (249, 2), (300, 1), (600, 1)] {
            assert_eq!(loaded.get(offset, size), Err(DecodeError::MissingBytes { offset, size }));
        }
    }

    #[test]
    fn bytes_behind_the_end_are_an_error() {
        for (offset, size) in [(990, 11), (1000, 1), (u64::MAX, 2)] {
            assert!(matches!(loaded(&[]).get(offset, size), Err(DecodeError::Format(_))));
        }
    }
}
