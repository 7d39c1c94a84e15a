//! Copies of what was read on the local disk, for data that is read again: by this process, by others at the same time,
//! and after a restart.
//!
//! Every version of a file has a folder of its own, and in it segments: files to which one reader each has added range
//! after range as it fetched them. Whatever is in them has checksums, so what a crash or a bad disk left behind is not
//! served but fetched again. Nobody holds a lock while reading; a segment that is removed under a reader is one that it
//! fetches again.

mod cached;
mod content;
mod folder;
mod segment;

pub use cached::Cached;
pub(crate) use folder::name_of;
