//! Files behind HTTP and WebDAV, and what S3 has of it.

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
mod proxies;
mod tcp;

pub(crate) use authorization::Authorization;
pub(crate) use client::{client, Client, DataRequest};
pub use file::HttpFile;
pub(crate) use folder::{body_of, list_http};
pub(crate) use location::{Location, Protocol};
