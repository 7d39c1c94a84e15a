//! Times in queues, the earliest first.

use std::cmp::Ordering;

/// A time, or another number, that has an order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Time(pub(crate) f64);

impl PartialEq for Time {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Time {}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Time {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Turns the order around: the standard heap has the largest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Later<T>(pub(crate) T);

impl<T: Ord> PartialOrd for Later<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Ord> Ord for Later<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.0.cmp(&self.0)
    }
}
