//! Joins format and storage: branches x entry range -> arrays, and arrays and baskets -> files.

#![forbid(unsafe_code)]

mod basket_ranges;
pub mod branch_info;
mod cache_learning;
mod codecs;
pub mod error;
pub mod extents;
mod external;
pub mod file;
mod key_path;
pub mod limits;
mod metadata_reader;
mod names;
mod ntuple;
pub mod object;
mod open_tree;
pub mod read;
pub mod read_buffers;
mod reread;
pub mod tree;
pub mod write;
