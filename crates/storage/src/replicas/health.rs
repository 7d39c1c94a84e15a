//! Which storage elements failed lately: their replicas come last for a while, for every file.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::limits::{ELEMENT_LEFT, ELEMENT_LEFT_MAX, SILENT_ELEMENT_LEFT};

struct Avoided {
    until: Instant,
    period: Duration,
}

static AVOIDED: Mutex<Option<HashMap<String, Avoided>>> = Mutex::new(None);

/// Whether it failed lately.
pub(crate) fn is_avoided(element: &str) -> bool {
    let avoided = AVOIDED.lock().unwrap_or_else(PoisonError::into_inner);
    avoided.as_ref().and_then(|avoided| avoided.get(element)).is_some_and(|avoided| avoided.until > Instant::now())
}

/// It failed just now, or was silent.
pub(crate) fn avoid(element: &str, is_silent: bool) {
    let first = if is_silent { SILENT_ELEMENT_LEFT } else { ELEMENT_LEFT };
    let mut avoided = AVOIDED.lock().unwrap_or_else(PoisonError::into_inner);
    let avoided = avoided.get_or_insert_default();
    let now = Instant::now();
    let time = match avoided.get(element) {
        // Several files that fail together are one failure.
        Some(known) if known.until > now => return,
        Some(known) => (known.period * 2).clamp(first, ELEMENT_LEFT_MAX),
        None => first,
    };
    avoided.insert(element.to_owned(), Avoided { until: now + time, period: time });
}

/// It answered again as it should.
pub(super) fn trust(element: &str) {
    if let Some(avoided) = AVOIDED.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        avoided.remove(element);
    }
}
