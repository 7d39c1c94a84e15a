//! Conversion between bytes and ROOT structures: files, keys, streamers, trees, baskets, compression. No I/O, no
//! threads.
//!
//! ```
//! use branchline_format::{cursor::Cursor, file::parse_key_sizes};
//!
//! // A TKey needs more than four bytes.
//! assert!(parse_key_sizes(&mut Cursor::new(&[0, 0, 0, 50])).is_err());
//! ```

#![forbid(unsafe_code)]

pub mod basket;
pub mod classes;
pub mod column;
pub mod compress;
pub mod cursor;
pub mod error;
pub mod file;
pub mod layout;
pub mod marks;
pub mod ntuple;
pub mod numbers;
pub mod objects;
pub mod tree;
mod walker;
pub mod write;
