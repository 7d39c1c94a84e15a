//! Bytes <-> ROOT structures: files, keys, streamers, trees, baskets, compression. No I/O, no threads.

#![forbid(unsafe_code)]

pub mod basket;
pub mod buffer;
pub mod class_info;
pub mod column;
pub mod compress;
pub mod cursor;
pub mod decode;
pub mod directory;
pub mod error;
pub mod file;
pub mod layout;
mod leaf_class;
pub mod loaded_bytes;
pub mod marks;
mod member_kind;
pub mod ntuple;
pub mod number;
pub mod objects;
pub mod range;
pub mod recover;
mod reordered;
mod root_classes;
pub mod scalar;
pub mod streamer;
pub mod tree;
mod type_code;
pub mod type_name;
mod walker;
pub mod write;
