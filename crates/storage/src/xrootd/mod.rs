//! Files on XRootD servers. Contains a client for the part of protocol 5.2 that is needed for reading.
//!
//! A [`session::Session`] is a connection after login. The [`pool`] keeps the sessions, each of which is used by one
//! thread at a time. A reading thread sends its own requests, and receives the responses as they arrive, directly into
//! the buffers of its reads. No other threads or event loops are involved.

mod file;
mod folder;
mod identify;
mod link;
mod login;
mod plan;
mod pool;
mod server;
mod session;
mod shared_secret;
mod streams;
mod transfer;
mod wire;

pub use file::XrootdFile;
pub(crate) use folder::list_xrootd;
