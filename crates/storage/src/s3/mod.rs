//! Objects of S3: of Amazon, of Ceph's gateway, and of all that have the same protocol. Requests and their failures
//! are those of HTTP; here are their addresses, signatures and settings.

mod address;
mod file;
mod profile;
mod sign;
mod signer;
mod web_identity;

pub(crate) use file::{list_s3, open_s3};
