//! Reads that bypass the kernel's cache (O_DIRECT). Such reads transfer whole sectors into aligned buffers.

use std::fs::File;
use std::io;

use rustix::io::{pread, Errno};

use crate::limits::{DIRECT_ALIGNMENT, DIRECT_PIECE_BYTES};
use crate::ByteRange;

/// A part of a range, and the sectors that contain the part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    /// Offset of the first sector.
    pub(super) start: u64,
    /// Total size of the sectors.
    pub(super) sectors_bytes: usize,
    /// Offset of the part within the sectors, in bytes.
    pub(super) skip: usize,
    /// Length of the part.
    pub(super) length: usize,
}

/// Outcome of reading several pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PiecesRead {
    /// All pieces were read.
    All { calls_count: u64 },
    /// The file ends within the piece with this index.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only io_uring reads several pieces"))]
    CutAt { number: usize },
}

/// Splits a range into pieces, ordered by offset.
pub(super) fn pieces(range: ByteRange) -> impl Iterator<Item = Piece> {
    let alignment = DIRECT_ALIGNMENT as u64;
    let end = range.offset + range.length;
    let mut offset = range.offset;
    std::iter::from_fn(move || {
        if offset >= end {
            return None;
        }
        let start = offset - offset % alignment;
        let stop = end.min(start + DIRECT_PIECE_BYTES as u64);
        let piece = Piece {
            start,
            sectors_bytes: (stop - start).next_multiple_of(alignment) as usize,
            skip: (offset - start) as usize,
            length: (stop - offset) as usize,
        };
        offset = stop;
        Some(piece)
    })
}

/// An aligned buffer for the sectors of a piece.
pub(super) struct Sectors {
    bytes: Vec<u8>,
    start: usize,
}

impl Sectors {
    /// Allocates an aligned buffer of `sectors_bytes` bytes, but at most the maximum size of a piece.
    pub(super) fn new(sectors_bytes: usize) -> Self {
        let bytes = vec![0; sectors_bytes.min(DIRECT_PIECE_BYTES) + DIRECT_ALIGNMENT];
        let start = (bytes.as_ptr() as usize).wrapping_neg() % DIRECT_ALIGNMENT;
        Self { bytes, start }
    }

    /// Returns the part of the buffer into which the sectors of a piece are read.
    pub(super) fn room(&mut self, piece: &Piece) -> &mut [u8] {
        if self.bytes.len() < self.start + piece.sectors_bytes {
            *self = Self::new(piece.sectors_bytes);
        }
        &mut self.bytes[self.start..self.start + piece.sectors_bytes]
    }

    /// Returns the bytes of a piece that has been read, without the rest of its sectors.
    pub(super) fn of(&self, piece: &Piece) -> &[u8] {
        &self.bytes[self.start + piece.skip..self.start + piece.skip + piece.length]
    }
}

/// Reads a piece, and returns the number of system calls; returns None if the file ends within the piece.
pub(super) fn read_piece(file: &File, piece: &Piece, sectors: &mut Sectors) -> io::Result<Option<u64>> {
    let room = sectors.room(piece);
    let (mut filled, mut calls_count) = (0, 0);
    // The last sector may be incomplete, because it ends at the end of the file.
    while filled < piece.skip + piece.length {
        calls_count += 1;
        match pread(file, &mut room[filled..], piece.start + filled as u64) {
            Ok(0) => return Ok(None),
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // After a read that does not end at a sector boundary, the kernel would refuse the next read.
        if filled < piece.skip + piece.length && filled % DIRECT_ALIGNMENT != 0 {
            return Ok(None);
        }
    }
    Ok(Some(calls_count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_a_range_and_begin_at_sectors() {
        let large = DIRECT_PIECE_BYTES as u64;
        for (offset, length) in [(0, 1), (4095, 2), (5, 3 * large), (large - 1, 1), (4096, large), (7, large - 7)] {
            let mut at = offset;
            for piece in pieces(ByteRange::new(offset, length)) {
                assert_eq!((piece.start % 4096, piece.sectors_bytes % 4096), (0, 0));
                assert_eq!(piece.start + piece.skip as u64, at);
                assert!(piece.skip + piece.length <= piece.sectors_bytes && piece.sectors_bytes <= DIRECT_PIECE_BYTES);
                at += piece.length as u64;
            }
            assert_eq!(at, offset + length);
        }
        assert_eq!(pieces(ByteRange::new(9, 0)).count(), 0);
    }

    #[test]
    fn buffers_begin_where_sectors_do() {
        let piece = Piece { start: 0, sectors_bytes: 8192, skip: 5, length: 5000 };
        let mut sectors = Sectors::new(8192);
        assert_eq!(sectors.room(&piece).as_ptr() as usize % DIRECT_ALIGNMENT, 0);
        assert_eq!(sectors.of(&piece).len(), 5000);
    }
}
