//! Models a link shared by many connections: computes when the bytes that are sent over it arrive.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::draw::drawn_share;
use super::throttle::Throttle;

/// Direction of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    ToServer,
    ToClient,
}

/// The times at which the link is free again: in each direction, and for sending the next request.
#[derive(Debug, Default)]
struct Free {
    to_server: Option<Instant>,
    to_client: Option<Instant>,
    request: Option<Instant>,
    draws_count: u64,
}

/// A link that transmits bytes in the order in which they arrive.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) throttle: Throttle,
    free: Mutex<Free>,
}

impl Link {
    pub(super) fn new(throttle: Throttle) -> Self {
        Self { throttle, free: Mutex::default() }
    }

    /// Returns the link for the throttle `words`. All stores of this process with the same string share one link.
    pub(super) fn shared(throttle: Throttle, words: &str) -> Arc<Self> {
        static LINKS: Mutex<Option<HashMap<String, Arc<Link>>>> = Mutex::new(None);
        let mut links = LINKS.lock().unwrap_or_else(PoisonError::into_inner);
        let known = links.get_or_insert_default().entry(words.to_owned());
        Arc::clone(known.or_insert_with(|| Arc::new(Self::new(throttle))))
    }

    fn lock(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the one-way latency without jitter.
    pub(super) fn one_way(&self) -> Duration {
        self.throttle.latency / 2
    }

    /// Draws the random extra latency of one request.
    pub(super) fn jitter(&self) -> Duration {
        if self.throttle.jitter.is_zero() {
            return Duration::ZERO;
        }
        let mut free = self.lock();
        free.draws_count += 1;
        self.throttle.jitter.mul_f64(drawn_share(self.throttle.seed, free.draws_count))
    }

    /// Returns the time at which a request that arrives at `arrival` is accepted, according to the request rate.
    pub(super) fn take_request(&self, arrival: Instant) -> Instant {
        let Some(rate) = self.throttle.requests_per_second else { return arrival };
        let mut free = self.lock();
        let taken = free.request.map_or(arrival, |next| next.max(arrival));
        free.request = Some(taken + Duration::from_secs_f64(1.0 / rate));
        taken
    }

    /// Returns the time at which the last of `bytes` bytes has passed the bottleneck, if the first byte arrives there
    /// at `arrival`.
    pub(super) fn pass(&self, direction: Direction, arrival: Instant, bytes: u64) -> Instant {
        let Some(rate) = self.throttle.bytes_per_second else { return arrival };
        let mut free = self.lock();
        let free_from = match direction {
            Direction::ToServer => &mut free.to_server,
            Direction::ToClient => &mut free.to_client,
        };
        let start = free_from.map_or(arrival, |next| next.max(arrival));
        let passed = start + Duration::from_secs_f64(bytes as f64 / rate);
        *free_from = Some(passed);
        passed
    }
}

/// Sleeps until the time `when`; returns at once if that time has passed.
pub(super) fn sleep_until(when: Instant) {
    let left = when.saturating_duration_since(Instant::now());
    if !left.is_zero() {
        std::thread::sleep(left);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn link(words: &str) -> Link {
        Link::new(words.parse().unwrap())
    }

    #[test]
    fn bytes_of_all_pass_one_after_the_other() {
        let (link, now) = (link("bandwidth=1MB/s"), Instant::now());
        assert_eq!(link.pass(Direction::ToClient, now, 1000), now + Duration::from_millis(1));
        assert_eq!(link.pass(Direction::ToClient, now, 2000), now + Duration::from_millis(3));
        assert_eq!(link.pass(Direction::ToServer, now, 1000), now + Duration::from_millis(1));
        let later = now + Duration::from_secs(1);
        assert_eq!(link.pass(Direction::ToClient, later, 1000), later + Duration::from_millis(1));
    }

    #[test]
    fn requests_are_taken_at_their_rate_and_jitter_stays_within_its_bounds() {
        let (link, now) = (link("requests=10/s,jitter=5ms,seed=1"), Instant::now());
        let taken: Vec<_> = (0..3).map(|_| link.take_request(now) - now).collect();
        assert_eq!(taken, [0, 100, 200].map(Duration::from_millis));
        let drawn: Vec<_> = (0..100).map(|_| link.jitter()).collect();
        assert!(drawn.iter().all(|one| *one < Duration::from_millis(5)));
        assert!(drawn.iter().max() > Some(&Duration::from_millis(4)));
    }

    #[test]
    fn a_link_without_limits_costs_nothing() {
        let (link, now) = (link(""), Instant::now());
        assert_eq!((link.pass(Direction::ToClient, now, 1 << 40), link.take_request(now)), (now, now));
        assert_eq!((link.one_way(), link.jitter()), (Duration::ZERO, Duration::ZERO));
    }
}
