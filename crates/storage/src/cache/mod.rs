//! Copies of what was read on the local disk, for data that is read again: by this process, by others at the same time,
//! and after a restart.
//!
//! Every version of a file has a folder of its own with segments. A segment is a file to which one reader adds range
//! after range as it fetches them. All bytes in it have checksums, so what a crash or a bad disk left behind is fetched
//! again. Reading takes no lock: if a segment is removed meanwhile, its ranges are fetched again.

mod cached;
mod content;
mod folder;
mod segment;

pub use cached::Cached;
pub(crate) use folder::name_of;
