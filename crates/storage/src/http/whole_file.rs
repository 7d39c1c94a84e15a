//! Files from servers without support for ranges. Each file is downloaded once, into an unnamed temporary file on a
//! local disk.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::authorization::Authorization;
use super::client::Answer;
use crate::limits::{UNKNOWN_SIZE_ROOM_DIVISOR, WEB_PAGE_BYTES, WHOLE_FILE_PIECE_BYTES};
use crate::progress::Progress;
use crate::room::{free_bytes, reserve};
use crate::servers::failure::{Fault, Result};
use crate::{RangeRead, ReadEffort, StorageErrorKind};

/// A downloaded file, and its size.
pub(super) struct Received {
    file: File,
    pub(super) size_bytes: u64,
}

impl Received {
    fn parts(self) -> (Arc<File>, ReadEffort) {
        let effort = ReadEffort { calls_count: 1, read_bytes: self.size_bytes, ..ReadEffort::default() };
        (Arc::new(self.file), effort)
    }
}

/// The local copy of a file whose server does not support ranges.
#[derive(Default)]
pub(super) struct WholeFile {
    is_needed: AtomicBool,
    file: Mutex<Option<Arc<File>>>,
    /// Effort of the download; zero once a read has reported the effort.
    effort: Mutex<ReadEffort>,
}

impl WholeFile {
    /// Creates the state of a file that has not been downloaded. `is_needed` is true if the server does not support
    /// ranges.
    pub(super) fn needed(is_needed: bool) -> Self {
        Self { is_needed: AtomicBool::new(is_needed), ..Self::default() }
    }

    /// Creates the state of a file that was downloaded when it was opened.
    pub(super) fn received(received: Received) -> Self {
        let (file, effort) = received.parts();
        Self { is_needed: AtomicBool::new(true), file: Mutex::new(Some(file)), effort: Mutex::new(effort) }
    }

    /// Returns the copy, after downloading the file with `receive` if necessary. Other threads wait for the download.
    pub(super) fn get_or(&self, receive: impl FnOnce() -> Result<Received>) -> Result<Arc<File>> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = &*file {
            return Ok(Arc::clone(file));
        }
        let (received, effort) = receive()?.parts();
        *file = Some(Arc::clone(&received));
        let mut sum = self.effort.lock().unwrap_or_else(PoisonError::into_inner);
        *sum = *sum + effort;
        Ok(received)
    }

    /// Returns the effort of the download, and resets the effort to zero.
    pub(super) fn take_effort(&self) -> ReadEffort {
        std::mem::take(&mut *self.effort.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Remembers that the server does not support ranges for this file.
    pub(super) fn need(&self) {
        self.is_needed.store(true, Ordering::Relaxed);
    }

    /// Returns whether the server does not support ranges for this file.
    pub(super) fn is_needed(&self) -> bool {
        self.is_needed.load(Ordering::Relaxed)
    }

    /// Returns whether the file must still be downloaded, or is being downloaded.
    pub(super) fn is_due(&self) -> bool {
        self.is_needed() && self.file.try_lock().map_or(true, |file| file.is_none())
    }

    /// Drops the copy, because its bytes turned out to be wrong.
    pub(super) fn forget(&self) {
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Fills reads from the local copy.
pub(super) fn fill_from(file: &File, reads: &mut [&mut RangeRead]) -> Result<ReadEffort> {
    let mut cached_bytes = 0;
    for read in reads {
        let range = read.range;
        let room = read.room_for(range.length).ok_or_else(Fault::no_memory)?;
        file.read_exact_at(room, range.offset).map_err(|error| Fault::io(&error))?;
        cached_bytes += range.length;
    }
    Ok(ReadEffort { cached_bytes, ..ReadEffort::default() })
}

/// Downloads a whole file, the body of a response, into an unnamed temporary file in `folder`. If the response
/// announces a length, the size must match.
pub(super) fn receive(answer: &mut Answer, authorization: &dyn Authorization, folder: &Path) -> Result<Received> {
    let length = answer.length();
    let mut file = tempfile::tempfile_in(folder).map_err(|error| no_room(folder, &error))?;
    let no_room_for = |size: &str, free: u64| {
        let reason = format!(
            "the server sends the file only as a whole, {size}, and {} has only {free} bytes free: choose another \
             folder with TMPDIR or --stage-dir, or copy the file to a local disk",
            folder.display()
        );
        Fault::new(StorageErrorKind::Refused, reason)
    };
    if let Some(length) = length {
        reserve(&file, length).map_err(|free| no_room_for(&format!("{length} bytes"), free))?;
    }
    let bytes_max = length.unwrap_or_else(|| free_bytes(&file) / UNKNOWN_SIZE_ROOM_DIVISOR);
    let progress = Progress::of_this_thread();
    let mut piece = vec![0; WHOLE_FILE_PIECE_BYTES];
    let mut size_bytes = 0;
    loop {
        let count = fill_piece(answer, &mut piece)?;
        let came = piece.get(..count).unwrap_or_default();
        if size_bytes == 0 {
            answer.check_web_page(came.get(..WEB_PAGE_BYTES as usize).unwrap_or(came), authorization)?;
        }
        size_bytes += count as u64;
        if size_bytes > bytes_max {
            return Err(no_room_for("of unknown size", bytes_max));
        }
        file.write_all(came).map_err(|error| no_room(folder, &error))?;
        answer.got(count as u64);
        progress.sign();
        if count < piece.len() {
            break;
        }
    }
    match length.filter(|length| *length != size_bytes) {
        None => Ok(Received { file, size_bytes }),
        Some(_) => Err(answer.broken(&io::ErrorKind::UnexpectedEof.into())),
    }
}

fn no_room(folder: &Path, error: &io::Error) -> Fault {
    let reason = format!(
        "the server sends the file only as a whole, and it cannot be written to {}: {error}; choose another folder \
         with TMPDIR or --stage-dir, or copy the file to a local disk",
        folder.display()
    );
    Fault::new(StorageErrorKind::Refused, reason)
}

/// Fills a piece with bytes of the body; stops early at the end of the body.
fn fill_piece(answer: &mut Answer, piece: &mut [u8]) -> Result<usize> {
    let mut count = 0;
    while let Some(room) = piece.get_mut(count..).filter(|room| !room.is_empty()) {
        match answer.read(room) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(answer.broken(&error)),
        }
    }
    Ok(count)
}
