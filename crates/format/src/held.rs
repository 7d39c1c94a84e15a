//! Parts of a file that are at hand, and the ranges that a decoder still needs.
//!
//! A decoder never reads. It asks here for bytes; where they are missing it answers with [`Need::Bytes`], the caller
//! fetches that range, adds it and asks again.

use bytes::Bytes;

use crate::error::{ErrorKind, FormatError};

/// Why a decoder could not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need {
    /// These bytes have to be fetched first.
    Bytes {
        /// Offset in the file.
        offset: u64,
        /// Bytes from there on.
        size: u64,
    },
    /// The bytes that are there are wrong, or of a kind that is not read.
    Nothing(FormatError),
}

impl From<FormatError> for Need {
    fn from(error: FormatError) -> Self {
        Need::Nothing(error)
    }
}

/// The bytes of a file that were fetched so far.
#[derive(Debug, Clone, Default)]
pub struct Held {
    file_size: u64,
    pieces: Vec<(u64, Bytes)>,
}

impl Held {
    /// Nothing yet of a file of `file_size` bytes.
    pub fn new(file_size: u64) -> Self {
        Self { file_size, pieces: Vec::new() }
    }

    /// A whole file.
    pub fn whole(bytes: Bytes) -> Self {
        Self { file_size: bytes.len() as u64, pieces: vec![(0, bytes)] }
    }

    /// Size of the file, whether held or not.
    pub fn file_size(&self) -> u64 {
        self.file_size
    }

    /// Adds bytes that start at `offset` of the file.
    pub fn add(&mut self, offset: u64, bytes: Bytes) {
        self.pieces.push((offset, bytes));
    }

    /// This range, if it is held: a share of the piece that it lies in.
    pub fn share(&self, offset: u64, size: u64) -> Option<Bytes> {
        let (piece, start) = self.piece(offset, size)?;
        Some(piece.slice(start..start + size as usize))
    }

    fn piece(&self, offset: u64, size: u64) -> Option<(&Bytes, usize)> {
        let end = offset.checked_add(size)?;
        self.pieces
            .iter()
            .find(|(start, bytes)| *start <= offset && end <= *start + bytes.len() as u64)
            .map(|(start, bytes)| (bytes, (offset - start) as usize))
    }

    /// `size` bytes at `offset`.
    pub fn get(&self, offset: u64, size: u64) -> Result<&[u8], Need> {
        let end = offset.checked_add(size).filter(|end| *end <= self.file_size);
        if end.is_none() {
            return Err(Need::Nothing(FormatError::new(
                ErrorKind::Truncated,
                offset,
                format!("{size} bytes are said to lie here, but the file has only {} bytes", self.file_size),
            )));
        }
        match self.piece(offset, size) {
            Some((bytes, start)) => Ok(&bytes[start..start + size as usize]),
            None => Err(Need::Bytes { offset, size }),
        }
    }

    /// Between one and `size` bytes at `offset`: as many as the file has.
    pub fn get_up_to(&self, offset: u64, size: u64) -> Result<&[u8], Need> {
        let size = size.min(self.file_size.saturating_sub(offset)).max(1);
        self.get(offset, size)
    }
}
