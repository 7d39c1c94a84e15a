//! Code shared by all network clients: addresses, TLS, tokens, retries, deadlines, checksums.

pub(crate) mod addresses;
pub(crate) mod checksum;
pub(crate) mod deadline;
pub(crate) mod failure;
pub(crate) mod failure_counts;
pub(crate) mod listing;
pub(crate) mod retry;
pub(crate) mod small_file;
pub(crate) mod tls;
pub(crate) mod token;
pub(crate) mod url;
