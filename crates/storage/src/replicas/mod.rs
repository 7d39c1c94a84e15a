//! Presents several replicas as one file: if a replica fails or stalls, another replica takes over.

mod checksum_query;
mod health;
mod pace;
mod preference;
mod replicated;
mod samples;

pub(crate) use health::{avoid, is_avoided};
pub use preference::{prefer_replicas, ReplicaRank};
pub(crate) use replicated::{nearest_in, replicas_in, Replicated};
