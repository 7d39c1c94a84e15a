//! Counts the failures of each storage element, for the report of a job.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::StorageErrorKind;

/// Counts of the failures of one storage element.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Troubles {
    /// Number of requests that were retried.
    pub retries_count: u64,
    /// Number of requests that timed out.
    pub timeouts_count: u64,
    /// Number of connections that failed or were lost.
    pub resets_count: u64,
    /// Number of responses that violated the protocol or contained wrong bytes.
    pub wrong_answers_count: u64,
    /// Number of requests that failed in other ways.
    pub other_errors_count: u64,
    /// Number of files for which reading switched to another replica.
    pub replicas_left_count: u64,
    /// Number of replicas that were rejected because their contents differ.
    pub replicas_refused_count: u64,
    /// Number of waits requested by a server.
    pub waits_count: u64,
    /// Total duration of the waits requested by a server.
    pub waited: Duration,
    /// Total duration of failed requests, and of the pauses after them.
    pub lost: Duration,
}

/// A storage element, and the counts of its failures.
#[derive(Debug, Clone, PartialEq)]
pub struct ElementTroubles {
    /// Name of the storage element in reports.
    pub element: String,
    /// Counts of the element's failures.
    pub troubles: Troubles,
}

/// ID of the counting process, and counts by storage element.
type Counted = (u32, BTreeMap<String, Troubles>);

static COUNTED: Mutex<Option<Counted>> = Mutex::new(None);

fn counted() -> MutexGuard<'static, Option<Counted>> {
    let mut counted = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    // A forked process starts with new counts, because the parent reports the counts from before the fork.
    if counted.as_ref().is_none_or(|(owner, _)| *owner != std::process::id()) {
        *counted = Some((std::process::id(), BTreeMap::new()));
    }
    counted
}

/// Updates the counts of a storage element with `add`.
pub(crate) fn note(element: &str, add: impl FnOnce(&mut Troubles)) {
    if let Some((_, by_element)) = counted().as_mut() {
        add(by_element.entry(element.to_owned()).or_default());
    }
}

/// Counts a failed request whose duration was `lost`.
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

/// Counts a wait requested by a server.
pub(crate) fn note_wait(element: &str, wait: Duration) {
    note(element, |troubles| {
        troubles.waits_count += 1;
        troubles.waited += wait;
    });
}

/// Counts a read whose bytes were wrong, because a second read returned different bytes.
pub fn note_wrong_bytes(element: &str) {
    note(element, |troubles| troubles.wrong_answers_count += 1);
}

/// Returns the counts of this process by storage element, and resets them.
pub fn take_troubles() -> Vec<ElementTroubles> {
    let by_element = counted().take().map(|(_, by_element)| by_element).unwrap_or_default();
    by_element.into_iter().map(|(element, troubles)| ElementTroubles { element, troubles }).collect()
}

/// Returns the counts of one storage element, for tests that run in parallel.
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
