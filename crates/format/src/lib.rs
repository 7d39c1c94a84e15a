//! Bytes <-> ROOT structures: files, keys, streamers, trees, baskets, compression. No I/O, no threads.

#![forbid(unsafe_code)]

pub mod buffer;
pub mod compress;
pub mod cursor;
pub mod error;
pub mod file;
pub mod held;
pub mod range;
pub mod streamer;
pub mod tree;
