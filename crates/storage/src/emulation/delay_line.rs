//! Bytes in flight on an emulated link. Each piece is delivered at its due time, in the order of sending.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::shared_link::sleep_until;

/// Received bytes, at the start of a reused buffer. Buffers are reused because touching new memory would cost as much
/// as receiving the bytes.
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

/// A piece of the data that is in flight, or an event.
#[derive(Debug)]
pub(super) enum Piece {
    Bytes(Load),
    /// The stream ends.
    End,
    /// The connection is cut.
    Cut,
}

#[derive(Debug, Default)]
struct Travelling {
    pieces: VecDeque<(Instant, Piece)>,
    bytes: usize,
    is_closed: bool,
}

/// One direction of an emulated connection.
#[derive(Debug, Default)]
pub(super) struct DelayLine {
    travelling: Mutex<Travelling>,
    changed: Condvar,
}

/// Maximum number of bytes in flight in each direction: enough for 1.3 GB/s at a round trip of 100 ms, which is 50 ms
/// per direction.
const BYTES_MAX: usize = 64 << 20;

/// Interval after which a wait without a deadline checks again whether the line is closed.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

impl DelayLine {
    fn lock(&self) -> MutexGuard<'_, Travelling> {
        self.travelling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a piece for delivery at `due`; returns false if the line is closed.
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

    /// Waits until the next piece is due, and returns the piece; returns None once the line is closed.
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
        // Bytes count as in flight until they are due. The sender is blocked while too many bytes are in flight.
        if let Piece::Bytes(load) = &piece {
            self.lock().bytes -= load.length;
            self.changed.notify_all();
        }
        Some(piece)
    }

    /// Waits until the line is closed, but at most for the time `most`.
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

    /// Closes the line for the sender and the receiver.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }
}
