//! Files that are opened by path, on local disks and on mounted file systems.

mod advice;
mod append;
mod direct;
mod file;
pub(crate) mod mounted;
#[cfg(not(target_os = "linux"))]
mod no_uring;
mod system;
#[cfg(target_os = "linux")]
mod uring;

#[cfg(not(target_os = "linux"))]
use no_uring as uring;
pub(crate) use system::is_on_this_machine;

pub use crate::settings::local_mode::LocalMode;
pub use file::{was_written_to, LocalFile};
