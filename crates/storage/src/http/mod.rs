//! Files over HTTP, WebDAV and WebHDFS, and the HTTP client used for S3.

mod authorization;
mod checksums;
mod client;
mod connect;
mod connection_numbers;
mod content_range;
mod file;
mod folder;
mod loan;
mod location;
mod multipart;
mod probe;
mod proxies;
mod redirect;
mod tcp;
mod web_page;
mod webhdfs;
mod whole_file;

pub(crate) use authorization::Authorization;
pub(crate) use client::{client, Client, DataRequest};
pub use file::HttpFile;
pub(crate) use folder::{body_of, list_http};
pub(crate) use location::{Location, Protocol};
pub(crate) use webhdfs::is_set_for_fsspec;
