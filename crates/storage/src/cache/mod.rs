//! A cache of file ranges on the local disk, shared between processes and kept across restarts.
//!
//! Every version of a file has its own folder of segments. A segment is a file to which one reader appends each range
//! that it fetches. All bytes have checksums, so data damaged by a crash or a bad disk is fetched again. Reading takes
//! no lock: if another process removes a segment during a read, the ranges are fetched again.

mod cached;
mod content;
mod folder;
mod segment;

pub use cached::Cached;
pub(crate) use folder::name_of;
