//! Remembers storage elements that failed recently. For a limited time, replicas on these elements are tried last, and
//! an element that did not answer gets less time to answer.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::limits::{ELEMENT_LEFT, ELEMENT_LEFT_MAX, SILENT_ELEMENT_LEFT};
use crate::settings::Settings;

struct Avoided {
    until: Instant,
    period: Duration,
    is_silent: bool,
    /// Number of files in a row that could not be opened because the element did not answer any attempt.
    silences_count: u32,
}

impl Avoided {
    fn is_in_force(&self) -> bool {
        self.until > Instant::now()
    }
}

static AVOIDED: Mutex<Option<HashMap<String, Avoided>>> = Mutex::new(None);

/// Calls `work` with the record of a storage element that failed recently; returns None for any other element.
fn with_recent<T>(element: &str, work: impl FnOnce(&Avoided) -> T) -> Option<T> {
    let avoided = AVOIDED.lock().unwrap_or_else(PoisonError::into_inner);
    avoided.as_ref()?.get(element).filter(|one| one.is_in_force()).map(work)
}

/// Returns whether the storage element failed recently, so that its replicas should be tried last.
pub(crate) fn is_avoided(element: &str) -> bool {
    with_recent(element, |_| ()).is_some()
}

/// Returns whether the storage element recently did not answer.
pub(crate) fn is_silent(element: &str) -> bool {
    with_recent(element, |one| one.is_silent) == Some(true)
}

/// Returns the settings for opening a file on a storage element. An element that recently did not answer gets fewer
/// attempts, and less time with each file that it did not answer.
pub(super) fn patience(element: &str, settings: Settings) -> Settings {
    match with_recent(element, |one| one.is_silent.then_some(one.silences_count)).flatten() {
        None => settings,
        Some(silences_count) => settings.after_silences(silences_count),
    }
}

/// Returns the storage elements that recently did not answer, in alphabetical order.
pub fn silent_elements() -> Vec<String> {
    let avoided = AVOIDED.lock().unwrap_or_else(PoisonError::into_inner);
    let silent = avoided.iter().flatten().filter(|(_, one)| one.is_silent && one.is_in_force());
    let mut names: Vec<String> = silent.map(|(name, _)| name.clone()).collect();
    names.sort();
    names
}

/// Records that the storage element just failed or was silent.
pub fn avoid(element: &str, is_silent: bool) {
    let first = if is_silent { SILENT_ELEMENT_LEFT } else { ELEMENT_LEFT };
    let mut avoided = AVOIDED.lock().unwrap_or_else(PoisonError::into_inner);
    let avoided = avoided.get_or_insert_default();
    let period = match avoided.get(element) {
        // Failures during the current period are not counted: files that fail at the same time count as one failure.
        Some(known) if known.is_in_force() => return,
        Some(known) => (known.period * 2).clamp(first, ELEMENT_LEFT_MAX),
        None => first,
    };
    let until = Instant::now() + period;
    avoided.insert(element.to_owned(), Avoided { until, period, is_silent, silences_count: 0 });
}

/// Records that a file could not be opened because the storage element did not answer any attempt.
pub(crate) fn note_silence(element: &str) {
    avoid(element, true);
    let mut avoided = AVOIDED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(one) = avoided.as_mut().and_then(|avoided| avoided.get_mut(element)) {
        one.is_silent = true;
        one.silences_count = one.silences_count.saturating_add(1);
    }
}

/// Records that the storage element works again.
pub(crate) fn trust(element: &str) {
    if let Some(avoided) = AVOIDED.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        avoided.remove(element);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{REPLICA_SILENCE, REQUEST_TIMEOUT, STALL_MIN, WAIT_MAX};

    #[test]
    fn a_silent_element_gets_less_time_with_each_file_until_it_answers() {
        let element = "root://silent-in-a-test:1";
        let given = |settings: Settings| (settings.silence, settings.timed_out_tries_max, settings.wait_max);
        let patience = || given(patience(element, Settings::default()));
        assert_eq!(patience(), (REQUEST_TIMEOUT, 2, WAIT_MAX));
        avoid(element, true);
        assert_eq!(patience(), (REQUEST_TIMEOUT, 1, REQUEST_TIMEOUT * 2));
        assert!(is_silent(element) && silent_elements().contains(&element.to_owned()));
        for silence in [REPLICA_SILENCE, STALL_MIN, STALL_MIN] {
            note_silence(element);
            assert_eq!(patience(), (silence, 1, silence * 2));
        }
        trust(element);
        assert_eq!(patience(), (REQUEST_TIMEOUT, 2, WAIT_MAX));
        assert!(!is_avoided(element));
    }

    #[test]
    fn an_element_that_failed_at_once_is_not_silent() {
        let element = "root://failed-in-a-test:1";
        avoid(element, false);
        assert!(is_avoided(element) && !is_silent(element) && !silent_elements().contains(&element.to_owned()));
        assert_eq!(patience(element, Settings::default()), Settings::default());
        note_silence(element);
        assert!(silent_elements().contains(&element.to_owned()));
    }
}
