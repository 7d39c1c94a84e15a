//! The reading wing: branches x entry range -> arrays, in bounded memory, by threads that prefetch, fetch and decode.

mod assemble;
pub mod decode;
pub mod decompress_limit;
mod fetcher;
pub mod object;
mod opening;
pub mod plan;
pub mod read_now;
pub mod records;
#[cfg(test)]
pub(crate) mod samples;
mod scheduler;
pub mod source;
mod stages;
pub mod stream;
