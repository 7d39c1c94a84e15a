//! Files behind HTTP and WebDAV, and what S3 has of it.

mod checksum;
mod client;
mod content_range;
mod file;
mod folder;
mod leave;
mod multipart;
mod numbered;
mod proxies;
mod reaching;

pub(crate) use checksum::checksum;
pub(crate) use client::{client, Ask, Client};
pub use file::HttpFile;
pub(crate) use file::Place;
pub(crate) use folder::{body_of, list_http, FolderAnswer};
pub(crate) use leave::Leave;
