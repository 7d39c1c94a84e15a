//! Several replicas of a file as one file: where one fails or stalls, another goes on.

mod checksum_query;
mod health;
mod pace;
mod replicated;
mod samples;

pub(crate) use replicated::{replicas_in, Replicated};
