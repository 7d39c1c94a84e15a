//! Memory that the reader of an answer lends to the connection: large answers come straight to their place.
//!
//! ureq copies what a connection has received to where it is read. For that a connection receives into memory of its
//! own, and each large answer would pass through the processor once more than it has to, a third of its time. So a
//! connection that was lent memory receives into that, and shows it to ureq as its own. What ureq copies, 16 KiB at a
//! time, stays in the nearest cache and is of no use but that ureq counts it.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::RangeRead;

/// What ureq copies at a time.
const COUNTED_BYTES: usize = 16 << 10;

/// The way to lend memory to a connection, which gives it back full.
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

    /// The connection has received so many bytes into its own memory that nobody has read.
    pub(super) fn hold(&self, bytes: usize) {
        self.lock().held = bytes;
    }

    /// For the connection: the memory that is lent, and what of it is to be filled.
    pub(super) fn take(&self) -> Option<(Vec<u8>, Range<usize>)> {
        self.lock().lent.take()
    }

    /// For the connection, when all was received or nothing more will be.
    pub(super) fn give_back(&self, memory: Vec<u8>) {
        self.lock().full = Some(memory);
    }

    /// Receives all bytes of a read, whose memory is there. `body` has exactly these bytes as the connection receives
    /// them.
    pub(super) fn receive(&self, read: &mut RangeRead, body: &mut impl Read) -> io::Result<()> {
        let room = read.room();
        // What came together with the head of the answer.
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
        // After a failure the connection may still have it: then the next try takes new memory.
        let lent = state.lent.take().map(|(memory, _)| memory);
        let is_back = lent.or_else(|| state.full.take()).map(|memory| read.restore(memory)).is_some();
        match result {
            Ok(()) if !is_back => Err(io::Error::other("the connection has kept the memory of its reader")),
            result => result,
        }
    }
}
