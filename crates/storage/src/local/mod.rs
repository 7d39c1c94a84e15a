//! Files that the operating system opens by their paths: on disks and on everything that is mounted.

mod advice;
mod behind;
mod direct;
mod file;
mod uring;
mod way;

pub use file::{was_written_to, LocalFile};
pub use way::LocalWay;
