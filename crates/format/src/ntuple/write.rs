//! Makes the bytes of RNTuples. No I/O: the caller writes them.

pub mod anchor;
pub mod elements;
pub mod envelope;
pub mod page;
pub mod page_list;
pub mod schema;
pub mod walk;
mod wire;
