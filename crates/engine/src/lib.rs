//! Joins format and storage: branches x entry range -> arrays.

pub mod about;
mod assemble;
mod basket_source;
mod budget;
pub mod chunk;
mod clock;
pub mod decompress_limit;
pub mod error;
mod extents;
mod fetch;
mod fetcher;
pub mod file;
mod guard;
pub mod limits;
mod names;
mod ntuple;
pub mod object;
mod page_decode;
mod page_fetch;
pub mod places;
mod read_buffers;
pub mod read_now;
pub mod records;
pub mod slab;
pub mod stream;
pub mod tree;
mod worker;
