//! Differences between Linux and macOS for local files. Each system has a module with the same functions.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;

#[cfg(target_os = "linux")]
pub(crate) use linux::is_on_this_machine;
#[cfg(target_os = "linux")]
pub(super) use linux::{is_on_network, open_direct, read_cached, will_need, READ_CACHED_CALL};
#[cfg(target_os = "macos")]
pub(crate) use macos::is_on_this_machine;
#[cfg(target_os = "macos")]
pub(super) use macos::{is_on_network, open_direct, read_cached, will_need, READ_CACHED_CALL};
