//! Presents several replicas as one file: if a replica fails or stalls, another replica takes over.

mod checksum_query;
mod health;
mod pace;
mod preference;
mod replicated;
mod samples;

pub use health::{avoid, silent_elements};
pub(crate) use health::{is_avoided, is_silent, note_silence, trust};
pub use preference::{prefer_replicas, ReplicaRank};
pub(crate) use replicated::{is_silence, nearest_in, open_patiently, replicas_in, Replicated};
