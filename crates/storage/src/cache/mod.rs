//! Copies of what was read on the local disk, for data that is read again: by this process, by others at the same time,
//! and after a restart.
//!
//! Every version of a file has a folder of its own, and in it segments: files with the ranges that some reader fetched
//! one after another. A segment gets its name when it is whole, and is never changed afterwards. Its table of contents
//! and its bytes have checksums, so what a crash or a bad disk left behind is not served but fetched again. Readers
//! hold no lock; a segment that is removed under them is one that they fetch again.

mod cached;
mod content;
mod folder;
mod segment;

pub use cached::Cached;
pub(crate) use folder::name_of;
