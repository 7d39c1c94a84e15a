//! S3 objects on Amazon's servers, Ceph's gateway and compatible servers. The HTTP client sends requests and handles
//! their errors; this module adds addresses, signatures and settings.

mod address;
mod credentials;
mod file;
mod profile;
mod signer;

pub(crate) use file::{list_s3, open_s3};
