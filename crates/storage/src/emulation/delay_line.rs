//! Bytes in flight: each piece comes out at its time, in order.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::shared_link::sleep_until;

/// Bytes at the start of a buffer, which is used again: touching new memory costs as much as receiving to it.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) buffer: Vec<u8>,
    pub(super) length: usize,
}

impl Load {
    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer.get(..self.length).unwrap_or_default()
    }
}

/// A piece of bytes in flight.
#[derive(Debug)]
pub(super) enum Piece {
    Bytes(Load),
    /// No more bytes follow.
    End,
    /// The connection is to be cut.
    Cut,
}

#[derive(Debug, Default)]
struct Travelling {
    pieces: VecDeque<(Instant, Piece)>,
    bytes: usize,
    is_closed: bool,
}

/// One direction of a connection.
#[derive(Debug, Default)]
pub(super) struct DelayLine {
    travelling: Mutex<Travelling>,
    changed: Condvar,
}

/// Bytes in flight in one direction of a connection: 1.3 GB/s at a round trip of 100 ms.
const BYTES_MAX: usize = 64 << 20;

/// A wait without a limit checks again after this time.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

impl DelayLine {
    fn lock(&self) -> MutexGuard<'_, Travelling> {
        self.travelling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a piece that comes out at that time; false if the receiver is gone.
    pub(super) fn put(&self, due: Instant, piece: Piece) -> bool {
        let mut travelling = self.lock();
        while travelling.bytes >= BYTES_MAX && !travelling.is_closed {
            travelling = self.changed.wait(travelling).unwrap_or_else(PoisonError::into_inner);
        }
        if travelling.is_closed {
            return false;
        }
        if let Piece::Bytes(load) = &piece {
            travelling.bytes += load.length;
        }
        travelling.pieces.push_back((due, piece));
        drop(travelling);
        self.changed.notify_all();
        true
    }

    /// The next piece, when it is due; none when the line was closed.
    pub(super) fn take(&self) -> Option<Piece> {
        let mut travelling = self.lock();
        let (due, piece) = loop {
            if travelling.is_closed {
                return None;
            }
            if let Some(next) = travelling.pieces.pop_front() {
                break next;
            }
            travelling = self.changed.wait(travelling).unwrap_or_else(PoisonError::into_inner);
        };
        drop(travelling);
        sleep_until(due);
        // Written bytes take up room until then: more bytes wait for it.
        if let Piece::Bytes(load) = &piece {
            self.lock().bytes -= load.length;
            self.changed.notify_all();
        }
        Some(piece)
    }

    /// Waits until the line is closed, but not longer than this.
    pub(super) fn wait_until_closed(&self, most: Option<Duration>) {
        let deadline = most.map(|most| Instant::now() + most);
        let mut travelling = self.lock();
        while !travelling.is_closed {
            let left = deadline.map_or(LOOK_AGAIN, |deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return;
            }
            travelling = self.changed.wait_timeout(travelling, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Ends both sides.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }
}
