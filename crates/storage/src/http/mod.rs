//! Files behind HTTP and WebDAV, and what S3 has of it.

mod client;
mod content_range;
mod file;
mod leave;
mod multipart;

pub(crate) use client::{client, Ask, Client};
pub use file::HttpFile;
pub(crate) use file::Place;
pub(crate) use leave::Leave;
