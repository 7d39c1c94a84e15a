//! Joins format and storage: branches x entry range -> arrays, and arrays and baskets -> files.

#![forbid(unsafe_code)]

pub mod error;
mod fetch;
pub mod file;
pub mod limits;
pub mod memory;
pub mod read;
pub mod tree;
pub mod write;
