//! Lends a reader's buffer to the connection, so that large responses are received without a copy.
//!
//! Normally a connection receives into its own buffer, from which ureq copies the bytes to the reader. For large
//! responses, this copy takes a third of the CPU time. A connection with a lent buffer receives into that buffer, and
//! presents the buffer to ureq as its own. ureq then counts the bytes by copying them in pieces of 16 KiB, which stay
//! in the fastest CPU cache.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::RangeRead;

/// Size of the pieces that ureq copies to count the bytes.
const COUNTED_BYTES: usize = 16 << 10;

/// Exchange point through which a reader lends a buffer to a connection and gets the full buffer back.
#[derive(Debug, Clone, Default)]
pub(super) struct Loan(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    lent: Option<(Vec<u8>, Range<usize>)>,
    full: Option<Vec<u8>>,
    held: usize,
}

impl Loan {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records how many unread bytes are in the connection's own buffer.
    pub(super) fn hold(&self, bytes: usize) {
        self.lock().held = bytes;
    }

    /// Returns the lent buffer and the range to fill. Called by the connection.
    pub(super) fn take(&self) -> Option<(Vec<u8>, Range<usize>)> {
        self.lock().lent.take()
    }

    /// Returns the buffer to the reader. Called by the connection when the buffer is full or no more bytes will arrive.
    pub(super) fn give_back(&self, memory: Vec<u8>) {
        self.lock().full = Some(memory);
    }

    /// Receives all bytes of a read. The read's buffer must be allocated, and `body` must yield exactly these bytes.
    pub(super) fn receive(&self, read: &mut RangeRead, body: &mut impl Read) -> io::Result<()> {
        let room = read.room();
        // The first bytes may have arrived together with the response header, in the connection's own buffer.
        let held = self.lock().held.min(room.len());
        let (came, rest) = room.split_at_mut(held);
        body.read_exact(came)?;
        let mut left = rest.len();
        let (memory, place) = read.lend();
        self.lock().lent = Some((memory, place.start + held..place.end));
        let mut counted = vec![0; COUNTED_BYTES];
        let mut count = || {
            while left > 0 {
                let most = left.min(COUNTED_BYTES);
                match body.read(&mut counted[..most]) {
                    Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(count) => left -= count,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        };
        let result = count();
        let mut state = self.lock();
        // After a failure, the connection may still hold the buffer. A retry then allocates a new buffer.
        let lent = state.lent.take().map(|(memory, _)| memory);
        let is_back = lent.or_else(|| state.full.take()).map(|memory| read.restore(memory)).is_some();
        match result {
            Ok(()) if !is_back => Err(io::Error::other("the connection did not return the buffer of its reader")),
            result => result,
        }
    }
}
