//! Which storage elements failed lately: their replicas come last for a while, for every file.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::limits::{ELEMENT_LEFT, ELEMENT_LEFT_MAX};

struct Left {
    until: Instant,
    last: Duration,
}

static LEFT: Mutex<Option<HashMap<String, Left>>> = Mutex::new(None);

/// Whether it failed lately.
pub(super) fn is_left(element: &str) -> bool {
    let left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    left.as_ref().and_then(|left| left.get(element)).is_some_and(|left| left.until > Instant::now())
}

/// It failed just now.
pub(super) fn leave(element: &str) {
    let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    let left = left.get_or_insert_default();
    let now = Instant::now();
    let time = match left.get(element) {
        // Several files that fail together are one failure.
        Some(known) if known.until > now => return,
        Some(known) => (known.last * 2).min(ELEMENT_LEFT_MAX),
        None => ELEMENT_LEFT,
    };
    left.insert(element.to_owned(), Left { until: now + time, last: time });
}

/// It answered again as it should.
pub(super) fn trust(element: &str) {
    if let Some(left) = LEFT.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        left.remove(element);
    }
}
