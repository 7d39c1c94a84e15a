//! Chooses the size and number of requests from the measured link and the user's options. No I/O.

use std::time::Duration;

use crate::limits::{
    AHEAD_BYTES_MIN, AHEAD_BYTES_UNKNOWN, AHEAD_REQUESTS_MAX, AHEAD_ROUND_TRIP_MIN, FILE_ROUND_TRIPS, FILE_WORK_MIN,
    GAP_MIN_BYTES, GAP_TIME, MAX_JOINED_BYTES,
};
use crate::{Access, Link};

/// Limits for the size and number of the requests to a storage element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// Largest gap across which two ranges are read as one.
    pub gap_bytes: u64,
    /// Maximum number of requests in flight; 0 if prefetching has no benefit.
    pub requests_in_flight: usize,
    /// Maximum number of bytes in flight.
    pub bytes_in_flight: u64,
}

impl Choice {
    /// Chooses the requests to a store whose default gap is `gap_bytes`. The user's options in `access` take precedence
    /// over the measured link.
    pub fn of(access: &Access, link: Option<Link>, gap_bytes: u64) -> Self {
        let chosen = link.map_or(Self::unknown(gap_bytes), |link| Self::by(link, gap_bytes));
        Self {
            gap_bytes: access.gap_bytes.unwrap_or(chosen.gap_bytes),
            requests_in_flight: access.requests_in_flight.unwrap_or(chosen.requests_in_flight),
            bytes_in_flight: access.bytes_in_flight.unwrap_or(chosen.bytes_in_flight),
        }
    }

    fn unknown(gap_bytes: u64) -> Self {
        Self { gap_bytes, requests_in_flight: 0, bytes_in_flight: AHEAD_BYTES_MIN }
    }

    fn by(link: Link, gap_bytes: u64) -> Self {
        let Link { round_trip, bytes_per_second } = link;
        if round_trip < AHEAD_ROUND_TRIP_MIN {
            return Self::unknown(gap_bytes);
        }
        let is_known = bytes_per_second > 0.0;
        // Twice the bandwidth-delay product is requested, so that an increased bandwidth is discovered step by step.
        let on_the_way = bytes_per_second * round_trip.as_secs_f64();
        let at_least = if is_known { AHEAD_BYTES_MIN } else { AHEAD_BYTES_UNKNOWN };
        let bytes_in_flight = at_least.saturating_add((2.0 * on_the_way) as u64);
        let for_files = (round_trip * FILE_ROUND_TRIPS).as_nanos() / FILE_WORK_MIN.as_nanos().max(1);
        let for_bytes = u128::from(bytes_in_flight / MAX_JOINED_BYTES);
        let requests_in_flight = (for_files.max(for_bytes) + 2).min(AHEAD_REQUESTS_MAX as u128) as usize;
        let gap = if is_known { (bytes_per_second * GAP_TIME.as_secs_f64()) as u64 } else { gap_bytes };
        Self { gap_bytes: gap.max(GAP_MIN_BYTES).min(gap_bytes), requests_in_flight, bytes_in_flight }
    }
}

/// Returns whether to read a whole file of this size if it is unknown which part is needed: true if the transfer takes
/// at most a few round trips, or if the link is unknown or too fast to matter.
pub fn is_worth_a_round_trip(link: Option<Link>, bytes: u64) -> bool {
    const ROUND_TRIPS: f64 = 3.0;
    let Some(Link { round_trip, bytes_per_second }) = link else { return true };
    if round_trip < AHEAD_ROUND_TRIP_MIN || bytes_per_second <= 0.0 {
        return true;
    }
    let allowed = round_trip.max(Duration::from_millis(10)).as_secs_f64() * ROUND_TRIPS;
    bytes as f64 / bytes_per_second <= allowed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(ms: f64, mb_per_second: f64) -> Option<Link> {
        let round_trip = Duration::from_secs_f64(ms / 1e3);
        Some(Link { round_trip, bytes_per_second: mb_per_second * 1e6 })
    }

    #[test]
    fn a_local_disk_is_not_read_early() {
        for link in [None, link(0.05, 2000.0)] {
            let choice = Choice::of(&Access::default(), link, 16 << 10);
            assert_eq!((choice.requests_in_flight, choice.gap_bytes), (0, 16 << 10));
        }
    }

    #[test]
    fn what_is_due_grows_with_round_trip_and_bandwidth() {
        let of = |ms, mb| Choice::of(&Access::default(), link(ms, mb), 128 << 10);
        assert!(of(100.0, 500.0).bytes_in_flight >= 100_000_000);
        assert!(of(100.0, 7.4).bytes_in_flight < of(100.0, 100.0).bytes_in_flight);
        assert!(of(1.0, 100.0).requests_in_flight < of(30.0, 100.0).requests_in_flight);
        assert!(of(3000.0, 1e6).requests_in_flight <= AHEAD_REQUESTS_MAX);
        assert!(of(63.0, 7.4).gap_bytes < of(63.0, 100.0).gap_bytes);
        assert_eq!(of(63.0, 1e5).gap_bytes, 128 << 10);
    }

    #[test]
    fn what_the_user_says_is_kept_to() {
        let access = Access {
            gap_bytes: Some(7),
            requests_in_flight: Some(3),
            bytes_in_flight: Some(1000),
            ..Access::default()
        };
        for link in [None, link(100.0, 100.0)] {
            let choice = Choice::of(&access, link, 128 << 10);
            assert_eq!(choice, Choice { gap_bytes: 7, requests_in_flight: 3, bytes_in_flight: 1000 });
        }
    }

    #[test]
    fn small_files_are_read_whole_where_that_takes_no_longer_than_another_request() {
        assert!(is_worth_a_round_trip(None, u64::MAX));
        assert!(is_worth_a_round_trip(link(100.0, 100.0), 3_000_000));
        assert!(!is_worth_a_round_trip(link(63.0, 7.4), 3_000_000));
    }
}
