//! Counts of failures at each storage element, for the report of a job.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::StorageErrorKind;

/// The troubles with one storage element.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Troubles {
    /// Requests that were made again.
    pub retries_count: u64,
    /// Requests that were not answered in time.
    pub timeouts_count: u64,
    /// Connections that were not made, or lost.
    pub resets_count: u64,
    /// Answers to something else than the request, or whose bytes cannot be right.
    pub wrong_answers_count: u64,
    /// Requests that failed in another way.
    pub other_errors_count: u64,
    /// Files that were read on from another replica.
    pub replicas_left_count: u64,
    /// Replicas that were not used because they differ.
    pub replicas_refused_count: u64,
    /// Waits that a server asked for.
    pub waits_count: u64,
    /// Time in these waits.
    pub waited: Duration,
    /// Time in requests that failed, and in the pauses after them.
    pub lost: Duration,
}

/// A storage element, and the troubles with it.
#[derive(Debug, Clone, PartialEq)]
pub struct ElementTroubles {
    /// The storage element, as reports name it.
    pub element: String,
    /// Its counts.
    pub troubles: Troubles,
}

/// The process that counts, and the troubles by storage element.
type Counted = (u32, BTreeMap<String, Troubles>);

static COUNTED: Mutex<Option<Counted>> = Mutex::new(None);

fn counted() -> MutexGuard<'static, Option<Counted>> {
    let mut counted = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    // After a fork the parent reports what was counted before.
    if counted.as_ref().is_none_or(|(owner, _)| *owner != std::process::id()) {
        *counted = Some((std::process::id(), BTreeMap::new()));
    }
    counted
}

/// Adds to the troubles with a storage element.
pub(crate) fn note(element: &str, add: impl FnOnce(&mut Troubles)) {
    if let Some((_, by_element)) = counted().as_mut() {
        add(by_element.entry(element.to_owned()).or_default());
    }
}

/// Adds a request that failed in so much time.
pub(crate) fn note_failure(element: &str, kind: StorageErrorKind, lost: Duration) {
    use StorageErrorKind::{Protocol, Timeout, Unreachable};
    note(element, |troubles| {
        match kind {
            Timeout => troubles.timeouts_count += 1,
            Unreachable => troubles.resets_count += 1,
            Protocol => troubles.wrong_answers_count += 1,
            _ => troubles.other_errors_count += 1,
        }
        troubles.lost += lost;
    });
}

/// Adds a wait that a server asked for.
pub(crate) fn note_wait(element: &str, wait: Duration) {
    note(element, |troubles| {
        troubles.waits_count += 1;
        troubles.waited += wait;
    });
}

/// Adds a read whose bytes could not be right: read again they were others.
pub fn note_wrong_bytes(element: &str) {
    note(element, |troubles| troubles.wrong_answers_count += 1);
}

/// The counts of this process since the last call, by storage element.
pub fn take_troubles() -> Vec<ElementTroubles> {
    let by_element = counted().take().map(|(_, by_element)| by_element).unwrap_or_default();
    by_element.into_iter().map(|(element, troubles)| ElementTroubles { element, troubles }).collect()
}

/// The counts of one storage element, for tests that run in parallel.
#[cfg(test)]
pub(crate) fn troubles_with(element: &str) -> Troubles {
    counted().as_ref().and_then(|(_, by_element)| by_element.get(element).copied()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_failure_is_counted_for_its_element() {
        let element = "root://counted-in-a-test:1";
        note_failure(element, StorageErrorKind::Timeout, Duration::from_millis(5));
        note_failure(element, StorageErrorKind::Unreachable, Duration::from_millis(5));
        note_failure(element, StorageErrorKind::Protocol, Duration::ZERO);
        note_failure(element, StorageErrorKind::Io, Duration::ZERO);
        note_wrong_bytes(element);
        let expected = Troubles {
            timeouts_count: 1,
            resets_count: 1,
            wrong_answers_count: 2,
            other_errors_count: 1,
            lost: Duration::from_millis(10),
            ..Troubles::default()
        };
        assert_eq!(troubles_with(element), expected);
        assert_eq!(troubles_with("root://another:1"), Troubles::default());
    }
}
