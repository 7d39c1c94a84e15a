//! Instrumentation of the engine: counters, clocks, and the journal of requests.
//!
//! A [`Counters`] belongs to one measured object (a file, a branch, a stream) and may be shared by any number of
//! threads. Adding to a counter is one relaxed atomic addition, done once per basket or read and never per entry, so
//! counters are always on.
//!
//! ```
//! use branchline_trace::{Counter, Counters};
//!
//! let counters = Counters::new();
//! counters.add(Counter::BytesAsked, 7);
//! counters.add(Counter::BytesAsked, 3);
//! assert_eq!(counters.snapshot().get(Counter::BytesAsked), 10);
//! ```

#![deny(unsafe_code)]

mod counters;
pub mod environment;
pub mod journal;
pub mod panics;
mod stopwatch;

pub use counters::{Counter, Counters, Snapshot, Unit};
pub use stopwatch::Stopwatch;
