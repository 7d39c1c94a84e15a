//! Reads an entry range of branches into arrays, in bounded memory, with threads that prefetch, fetch and decode.
//!
//! ```no_run
//! use branchline_engine::file::File;
//! use branchline_engine::read::read_now::read_now;
//! use branchline_slab::Pool;
//! use branchline_storage::Access;
//!
//! let tree = File::open("data.root", &Access::default())?.tree(Some("events"))?;
//! // The first ten entries of the first branch.
//! let chunk = read_now(&tree, vec![0], 0..10, &Pool::new(1 << 20))?;
//! # Ok::<(), branchline_engine::error::ReadError>(())
//! ```

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
