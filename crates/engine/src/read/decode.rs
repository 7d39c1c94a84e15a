//! Decodes baskets and pages into their positions in the output.
//!
//! ```no_run
//! use branchline_engine::file::File;
//! use branchline_engine::read::read_now::read_now;
//! use branchline_slab::Pool;
//! use branchline_storage::Access;
//!
//! let tree = File::open("data.root", &Access::default())?.tree(Some("events"))?;
//! let chunk = read_now(&tree, vec![0], 0..10, &Pool::new(1 << 20))?;
//! // The values of branch 0, or the error of the first basket that cannot be decoded.
//! let columns = chunk.take()?;
//! # Ok::<(), branchline_engine::error::ReadError>(())
//! ```

pub(crate) mod baskets;
pub mod chunk;
pub(crate) mod clock;
pub(crate) mod effort;
pub(crate) mod joining;
pub(crate) mod pages;
pub(crate) mod task;
pub(crate) mod tools;
pub(crate) mod worker;
