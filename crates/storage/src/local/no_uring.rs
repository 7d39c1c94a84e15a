//! Replacement for the module `uring` on systems without io_uring (all except Linux), where threads read the files.

use std::fs::File;
use std::io;

use super::direct::{Piece, PiecesRead};

/// Returns false, because io_uring does not exist on this system.
pub(super) fn is_allowed() -> bool {
    false
}

/// Always fails. Callers check `is_allowed` first.
pub(super) fn read_pieces(_file: &File, _pieces: &[Piece], _take: impl FnMut(usize, &[u8])) -> io::Result<PiecesRead> {
    Err(io::ErrorKind::Unsupported.into())
}
