//! For systems without io_uring, which is Linux's: files are read by threads there.

use std::fs::File;
use std::io;

use super::direct::{Piece, PiecesRead};

/// There is no ring.
pub(super) fn is_allowed() -> bool {
    false
}

/// Never reads: callers check `is_allowed` first.
pub(super) fn read_pieces(_file: &File, _pieces: &[Piece], _take: impl FnMut(usize, &[u8])) -> io::Result<PiecesRead> {
    Err(io::ErrorKind::Unsupported.into())
}
