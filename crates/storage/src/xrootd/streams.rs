//! Additional data connections of a session, on which the server sends bytes that were requested on the first
//! connection.

use std::time::Instant;

use super::link::{first_readable, Link};
use crate::limits::STREAMS_MAX;
use crate::servers::failure::Result;

/// A data connection, with the ID that the server assigned to it.
pub(super) struct BoundLink {
    pub(super) link: Link,
    pub(super) path: u8,
}

/// The data connections, and the connection from which bytes are currently received.
#[derive(Default)]
pub(super) struct Streams {
    bound: Vec<BoundLink>,
    /// Index of the connection from which bytes are received; None for the session's first connection.
    chosen: Option<usize>,
    were_opened: bool,
    turn: usize,
}

impl Streams {
    /// Opens data connections with `bind`, until there are `count` connections including the session's first one, or
    /// until the server accepts no more. Later calls have no effect.
    pub(super) fn open(&mut self, count: usize, mut bind: impl FnMut() -> Result<BoundLink>) {
        if !std::mem::replace(&mut self.were_opened, true) {
            self.bound = (1..count.min(STREAMS_MAX + 1)).map_while(|_| bind().ok()).collect();
        }
    }

    /// Returns the ID of the next connection in round-robin order; 0 is the session's first connection.
    pub(super) fn next(&mut self) -> u8 {
        self.turn = (self.turn + 1) % (self.bound.len() + 1);
        self.turn.checked_sub(1).and_then(|index| self.bound.get(index)).map_or(0, |bound| bound.path)
    }

    /// Waits until a response starts on one of the connections, and selects that connection for receiving.
    pub(super) fn choose(&mut self, first: &Link, deadline: Instant) -> Result<()> {
        if !self.bound.is_empty() {
            let links: Vec<&Link> = std::iter::once(first).chain(self.bound.iter().map(|bound| &bound.link)).collect();
            self.chosen = first_readable(&links, deadline)?.checked_sub(1);
        }
        Ok(())
    }

    /// Returns the selected connection; None for the session's first connection.
    pub(super) fn chosen(&mut self) -> Option<&mut Link> {
        self.bound.get_mut(self.chosen?).map(|bound| &mut bound.link)
    }
}
