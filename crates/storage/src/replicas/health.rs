//! Remembers storage elements that failed recently. For a limited time, replicas on these elements are tried last.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::limits::{ELEMENT_LEFT, ELEMENT_LEFT_MAX, SILENT_ELEMENT_LEFT};

struct Avoided {
    until: Instant,
    period: Duration,
}

static AVOIDED: Mutex<Option<HashMap<String, Avoided>>> = Mutex::new(None);

/// Returns whether the storage element failed recently, so that its replicas should be tried last.
pub(crate) fn is_avoided(element: &str) -> bool {
    let avoided = AVOIDED.lock().unwrap_or_else(PoisonError::into_inner);
    avoided.as_ref().and_then(|avoided| avoided.get(element)).is_some_and(|avoided| avoided.until > Instant::now())
}

/// Records that the storage element just failed or was silent.
pub(crate) fn avoid(element: &str, is_silent: bool) {
    let first = if is_silent { SILENT_ELEMENT_LEFT } else { ELEMENT_LEFT };
    let mut avoided = AVOIDED.lock().unwrap_or_else(PoisonError::into_inner);
    let avoided = avoided.get_or_insert_default();
    let now = Instant::now();
    let time = match avoided.get(element) {
        // Failures during the current period are not counted: files that fail at the same time count as one failure.
        Some(known) if known.until > now => return,
        Some(known) => (known.period * 2).clamp(first, ELEMENT_LEFT_MAX),
        None => first,
    };
    avoided.insert(element.to_owned(), Avoided { until: now + time, period: time });
}

/// Records that the storage element works again.
pub(super) fn trust(element: &str) {
    if let Some(avoided) = AVOIDED.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        avoided.remove(element);
    }
}
