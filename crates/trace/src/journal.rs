//! A journal of every request, for a trace. It is off unless it was begun, and then costs some hundred nanoseconds a
//! request. Each thread logs into a buffer of its own, of bounded length, and writes it when it is full. A thread of
//! the journal writes the others now and then, so that a process that is killed leaves what it logged up to a moment
//! before.
//!
//! `records` has the format of the file. Times in it are nanoseconds since 1970.

mod branches;
mod forks;
mod lock;
mod names;
mod records;
mod requests;
mod uses;
mod writer;

pub use branches::Branches;
pub use records::Span;
pub use requests::{
    queued_at, queued_since, request, set_attempt, set_wagon, throttling, QueuedSince, Request, Throttling,
};
pub use uses::{did, used, used_page, Used, UsedBranch, UsedPage, UsedRange};
pub use writer::{begin, begin_from_environment, end, flush, is_on, FOLDER_VARIABLE};

#[cfg(test)]
#[path = "journal/tests.rs"]
mod tests;
