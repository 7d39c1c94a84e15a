//! Catches panics, which are internal errors, in the outermost function of each task, and records where they occurred.
//!
//! ```
//! use branchline_trace::panics::guarded;
//!
//! assert_eq!(guarded(|| 7), Ok(7));
//! ```

use std::any::Any;
use std::cell::RefCell;
use std::panic::{catch_unwind, set_hook, take_hook, AssertUnwindSafe, PanicHookInfo};
use std::sync::Once;

/// Message of a panic, with its source line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Panic {
    message: String,
}

impl Panic {
    /// Returns the error for a task that ended without a result and without a caught panic.
    pub fn unseen() -> Self {
        Self { message: "a thread ended without a result".to_owned() }
    }
}

thread_local! {
    static LINE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `work` and catches a panic, so that the thread survives and the caller gets an error. Values modified by `work`
/// must not be used after a panic.
pub fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, Panic> {
    record_lines();
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| {
        let line = LINE.take().map_or_else(String::new, |line| format!(" at {line}"));
        Panic { message: format!("panic{line}: {}", text_of(&*payload)) }
    })
}

/// Installs a hook that records the source line of every panic, which the payload does not contain.
fn record_lines() {
    static RECORDED: Once = Once::new();
    RECORDED.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
            let line = info.location().map(|place| format!("{}:{}", place.file(), place.line()));
            let _ = LINE.try_with(|last| *last.borrow_mut() = line);
            before(info);
        }));
    });
}

fn text_of(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_with_its_message_and_line() {
        let numbers: Vec<usize> = Vec::new();
        let panic = guarded(|| numbers[numbers.len()]).expect_err("there are no numbers");
        let text = panic.to_string();
        assert!(text.contains("panics.rs:") && text.contains("index out of bounds"), "{text}");
        assert_eq!(guarded(|| 1), Ok(1));
    }
}
