//! Connects to hosts that have several addresses, some of which may be dead.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::limits::{ADDRESS_WAIT, SILENT_FOR};

/// Addresses that did not answer, with the time of the failed attempt.
static SILENT: Mutex<Vec<(SocketAddr, Instant)>> = Mutex::new(Vec::new());

/// Connects to the first of these addresses that answers in time. Addresses that were recently silent are tried last,
/// so that a dead machine costs one timeout instead of one timeout per connection. Returns the last error if no address
/// answers, and None if there are no addresses.
pub(crate) fn reach<T, E>(
    addresses: &[SocketAddr],
    time_limit: Duration,
    mut connect: impl FnMut(SocketAddr, Duration) -> Result<T, E>,
    is_silence: impl Fn(&E) -> bool,
) -> Option<Result<T, E>> {
    let (last, others) = addresses.split_last()?;
    if others.is_empty() {
        return Some(connect(*last, time_limit));
    }
    let started = Instant::now();
    let mut ordered = addresses.to_vec();
    ordered.sort_by_cached_key(|address| was_silent(*address));
    let mut result = None;
    for (index, address) in ordered.iter().enumerate() {
        let is_last = index + 1 == ordered.len();
        let one = ADDRESS_WAIT.min(time_limit / 2);
        let limit = if is_last { time_limit.saturating_sub(started.elapsed()).max(one) } else { one };
        match connect(*address, limit) {
            Ok(done) => {
                note(*address, false);
                return Some(Ok(done));
            }
            Err(error) => {
                if is_silence(&error) {
                    note(*address, true);
                }
                result = Some(Err(error));
            }
        }
    }
    result
}

fn was_silent(address: SocketAddr) -> bool {
    let silent = SILENT.lock().unwrap_or_else(PoisonError::into_inner);
    silent.iter().any(|(one, since)| *one == address && since.elapsed() < SILENT_FOR)
}

fn note(address: SocketAddr, is_silent: bool) {
    let mut silent = SILENT.lock().unwrap_or_else(PoisonError::into_inner);
    silent.retain(|(one, since)| *one != address && since.elapsed() < SILENT_FOR);
    if is_silent {
        silent.push((address, Instant::now()));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_address_is_tried_last_and_one_that_refuses_in_turn() {
        let [dead, closed, living] = ["192.0.2.1:1", "192.0.2.2:1", "192.0.2.3:1"].map(|one| one.parse().unwrap());
        let mut tried = Vec::new();
        let mut read = |addresses: &[SocketAddr]| {
            tried.clear();
            let connect = |address: SocketAddr, limit: Duration| {
                tried.push((address, limit));
                match address {
                    one if one == living => Ok(one),
                    one => Err(one == dead),
                }
            };
            let result = reach(addresses, Duration::from_secs(60), connect, |is_dead| *is_dead);
            (result, tried.clone())
        };
        let (first, whole) = (ADDRESS_WAIT, Duration::from_secs(60));
        assert_eq!(read(&[dead, living, closed]).0, Some(Ok(living)));
        assert_eq!(read(&[dead, closed, living]), (Some(Ok(living)), vec![(closed, first), (living, first)]));
        assert_eq!(read(&[dead]), (Some(Err(true)), vec![(dead, whole)]));
        let (result, tried) = read(&[dead, closed]);
        assert_eq!((result, tried.len(), tried[0]), (Some(Err(true)), 2, (closed, first)));
        assert!(tried[1].0 == dead && tried[1].1 > whole - first);
        assert_eq!(read(&[]).0, None);
    }
}
