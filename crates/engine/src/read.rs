//! The reading wing: branches x entry range -> arrays, in bounded memory, by threads that fetch and decode ahead.

mod assemble;
mod basket_source;
pub(crate) mod budget;
pub mod chunk;
mod chunk_ranges;
mod clock;
mod counts;
pub mod decompress_limit;
mod fetch;
mod fetcher;
mod file_order;
mod memory_plan;
mod opening;
mod page_decode;
mod page_fetch;
mod prefetch;
mod prepare;
pub mod read_now;
pub mod records;
#[cfg(test)]
mod samples;
mod scheduler;
mod scratch;
pub mod slab;
pub mod source;
pub mod stream;
mod tail_size;
pub(crate) mod watch;
mod worker;
