//! Further connections of a login, over which a server sends bytes that were requested on the first one.

use std::time::Instant;

use super::link::{first_readable, Link};
use crate::limits::STREAMS_MAX;
use crate::servers::failure::Result;

/// A further connection, and the number under which the server knows it.
pub(super) struct BoundLink {
    pub(super) link: Link,
    pub(super) path: u8,
}

/// The further connections, and the one whose answer is being received.
#[derive(Default)]
pub(super) struct Streams {
    bound: Vec<BoundLink>,
    /// None is the first connection, as it is without others.
    chosen: Option<usize>,
    were_opened: bool,
    turn: usize,
}

impl Streams {
    /// Opens connections up to this number in all, with the first one, by `bind`; as many as the server accepts.
    pub(super) fn open(&mut self, count: usize, mut bind: impl FnMut() -> Result<BoundLink>) {
        if !std::mem::replace(&mut self.were_opened, true) {
            self.bound = (1..count.min(STREAMS_MAX + 1)).map_while(|_| bind().ok()).collect();
        }
    }

    /// The path of the next one in turn: 0 is the first connection.
    pub(super) fn next(&mut self) -> u8 {
        self.turn = (self.turn + 1) % (self.bound.len() + 1);
        self.turn.checked_sub(1).and_then(|index| self.bound.get(index)).map_or(0, |bound| bound.path)
    }

    /// Waits until an answer begins on any of them, and receives from there then.
    pub(super) fn choose(&mut self, first: &Link, deadline: Instant) -> Result<()> {
        if !self.bound.is_empty() {
            let links: Vec<&Link> = std::iter::once(first).chain(self.bound.iter().map(|bound| &bound.link)).collect();
            self.chosen = first_readable(&links, deadline)?.checked_sub(1);
        }
        Ok(())
    }

    /// The connection of the answer, if that is not the first one.
    pub(super) fn chosen(&mut self) -> Option<&mut Link> {
        self.bound.get_mut(self.chosen?).map(|bound| &mut bound.link)
    }
}
