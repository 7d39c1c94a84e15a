//! A wrapper around a store that makes it as slow as a given link.

use std::sync::Arc;
use std::time::Instant;

use branchline_trace::journal;

use super::shared_link::{sleep_until, Direction, Link};
use super::throttle::Throttle;
use crate::{Around, RangeRead, ReadEffort, Result, StorageError, Store};

/// Every call costs a round trip, and its bytes pass one link with those of all stores that are throttled alike in this
/// process. The ranges of a call are requested together, so that they cost one round trip.
pub struct Throttled {
    inner: Arc<dyn Store>,
    link: Arc<Link>,
}

impl Throttled {
    /// Makes the stores that `open` gives slow, and the opening too: `words` say how slow.
    pub fn open(words: &str, path: &str, open: impl FnOnce() -> Result<Arc<dyn Store>>) -> Result<Self> {
        let throttle: Throttle = words.parse().map_err(|reason| StorageError::option(path, reason))?;
        let link = Link::shared(throttle, words);
        let taken = link.take_request(Instant::now() + link.one_way() + link.jitter());
        let inner = open()?;
        sleep_until(taken.max(Instant::now()) + link.one_way());
        Ok(Self { inner, link })
    }
}

impl Around for Throttled {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn is_near(&self) -> bool {
        false
    }

    fn read_ranges(&self, reads: &mut [RangeRead]) -> Result<ReadEffort> {
        // Dropped when the bytes have passed the link, so that its time is in the record of the requests.
        let _throttling = journal::throttling();
        let taken = self.link.take_request(Instant::now() + self.link.one_way() + self.link.jitter());
        let started = Instant::now();
        let effort = self.inner.read_ranges(reads)?;
        // The storage behind the link begins to read when the request has arrived.
        let answered = taken + started.elapsed();
        let bytes = reads.iter().map(|read| read.range.length).sum();
        sleep_until(self.link.pass(Direction::ToClient, answered, bytes) + self.link.one_way());
        Ok(effort)
    }
}
