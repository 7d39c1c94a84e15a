//! Panics: each is a fault of ours, caught where a piece of work begins, with what is needed to report it.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::panic::{catch_unwind, set_hook, take_hook, AssertUnwindSafe, PanicHookInfo};
use std::sync::Once;

/// The message of a panic, with the line of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Panic {
    message: String,
}

impl Panic {
    /// Work that ended without a result and without a panic that was caught.
    pub fn unseen() -> Self {
        Self { message: "a thread ended without a result".to_owned() }
    }
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Panic {}

thread_local! {
    static LINE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `work` and catches its panic, so that the thread goes on and whoever waits for the result gets an error. Values
/// that `work` was changing must not be used after a panic.
pub fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, Panic> {
    record_lines();
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| {
        let line = LINE.take().map_or_else(String::new, |line| format!(" at {line}"));
        Panic { message: format!("panic{line}: {}", text_of(&*payload)) }
    })
}

/// Installs a hook that records the line of every panic, which its payload lacks.
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
