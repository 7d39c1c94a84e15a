//! Combines the format and storage crates: reads entry ranges of branches into arrays, and writes arrays and baskets to
//! files.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use branchline_engine::file::File;
//! use branchline_engine::read::read_now::read_now;
//! use branchline_slab::Pool;
//! use branchline_storage::Access;
//!
//! let tree = File::open("data.root", &Access::default())?.tree(Some("events"))?;
//! let chunk = read_now(&tree, vec![tree.find("pt")?], 0..1000, &Pool::new(1 << 20))?;
//! let columns = chunk.take()?;
//! # Ok::<(), branchline_engine::error::ReadError>(())
//! ```

#![forbid(unsafe_code)]

pub mod error;
mod fetch;
pub mod file;
pub mod limits;
pub mod memory;
pub mod read;
pub mod tree;
pub mod write;
