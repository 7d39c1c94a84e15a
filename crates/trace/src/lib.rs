//! What the engine counts while it works: counters declared in one list, and clocks to fill them.
//!
//! A [`Counters`] belongs to one thing that is measured (a file, a branch, a stream) and may be shared by
//! any number of threads. Adding to it is one relaxed atomic addition, done once per basket or read and
//! never per entry, so it is always on.

#![deny(unsafe_code)]

mod counters;
pub mod journal;
pub mod panics;
mod stopwatch;

pub use counters::{Counter, Counters, Snapshot, Unit};
pub use stopwatch::Stopwatch;
