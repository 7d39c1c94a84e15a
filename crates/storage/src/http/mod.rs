//! Files behind HTTP and WebDAV.

mod client;
mod content_range;
mod file;
mod multipart;

pub use file::HttpFile;
