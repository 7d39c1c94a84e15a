//! Several replicas of a file as one file: where one fails or stalls, another goes on.

mod checksum_query;
mod health;
mod pace;
mod preference;
mod replicated;
mod samples;

pub(crate) use health::{avoid, is_avoided};
pub use preference::{prefer_replicas, ReplicaRank};
pub(crate) use replicated::{nearest_in, replicas_in, Replicated};
