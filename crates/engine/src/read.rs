//! The reading wing: branches x entry range -> arrays, in bounded memory, by threads that prefetch, fetch and decode.

mod assemble;
mod basket_decode;
pub(crate) mod basket_fetch;
pub(crate) mod basket_source;
pub(crate) mod budget;
pub mod chunk;
mod clock;
pub mod decompress_limit;
mod effort;
mod fetch;
pub(crate) mod fetch_request;
mod fetcher;
mod file_order;
mod memory_plan;
mod needed;
mod opening;
mod page_decode;
pub(crate) mod page_fetch;
mod prefetch;
mod range_fetch;
pub mod read_now;
pub mod records;
mod room;
#[cfg(test)]
pub(crate) mod samples;
mod scheduler;
mod scratch;
pub mod source;
mod stages;
pub(crate) mod strategy;
pub mod stream;
mod tail_size;
mod task;
mod tools;
pub(crate) mod watch;
mod worker;
