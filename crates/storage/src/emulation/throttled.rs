//! A wrapper around a store that emulates a slow link.

use std::sync::Arc;
use std::time::Instant;

use branchline_trace::journal;

use super::shared_link::{sleep_until, Direction, Link};
use super::throttle::Throttle;
use crate::{Around, RangeRead, ReadEffort, Result, StorageError, Store};

/// A store behind an emulated link. Every call takes one round trip, regardless of the number of ranges, and shares the
/// bandwidth with all stores of this process that have the same throttle.
pub struct Throttled {
    inner: Arc<dyn Store>,
    link: Arc<Link>,
}

impl Throttled {
    /// Opens a store with `open` and wraps it. Opening is delayed too. `words` is the throttle as a string.
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
        // This guard is held until the bytes have passed the link, so that traced requests include the delay.
        let _throttling = journal::throttling();
        let taken = self.link.take_request(Instant::now() + self.link.one_way() + self.link.jitter());
        let started = Instant::now();
        let effort = self.inner.read_ranges(reads)?;
        // The emulated storage system starts reading when the request arrives there.
        let answered = taken + started.elapsed();
        let bytes = reads.iter().map(|read| read.range.length).sum();
        sleep_until(self.link.pass(Direction::ToClient, answered, bytes) + self.link.one_way());
        Ok(effort)
    }
}
