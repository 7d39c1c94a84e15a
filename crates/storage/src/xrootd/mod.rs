//! Files at XRootD servers: a client of the protocol 5.2 for what reading needs.
//!
//! A [`session::Session`] is one connection after its login; the [`pool`] keeps them, and one thread at a time uses
//! each. The thread that reads sends its requests one after the other and takes the answers as they come, straight into
//! the buffers that they are for, so there is no thread between, and no event loop.

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
