//! A panic of one piece of work ends neither its thread nor the wait of whoever needs its result.

use std::panic::{catch_unwind, AssertUnwindSafe};

/// What `work` answers, or none if it panicked, which is a mistake of ours that its message on stderr tells more about.
/// What it was changing is not to be used again.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// What the reader is told then.
pub(crate) const MISTAKE: &str = "reading it meets a mistake in Branchline; please report it with this file";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_no_answer() {
        let numbers: Vec<usize> = Vec::new();
        assert_eq!(guarded(|| numbers[numbers.len()]), None);
        assert_eq!(guarded(|| 1), Some(1));
    }
}
