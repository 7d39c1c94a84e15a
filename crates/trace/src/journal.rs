//! A journal of all requests, for traces. It is off by default; when on, it costs a few hundred nanoseconds per
//! request. Each thread logs to its own bounded buffer and writes it when it is full. A background thread regularly
//! writes all buffers, so that a killed process leaves a journal that is complete until shortly before its end.
//!
//! `records` defines the file format. Times are in nanoseconds since 1970.
//!
//! ```
//! use branchline_trace::journal;
//!
//! assert!(!journal::is_on());
//! // Without a journal, requests are not recorded.
//! assert!(journal::request("GET", "f.root", "host", std::iter::empty()).is_none());
//! ```

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
pub use writer::{begin, begin_from_environment, end, flush, is_on};

#[cfg(test)]
#[path = "journal/tests.rs"]
mod tests;
