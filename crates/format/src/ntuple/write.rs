//! RNTuples as bytes: the reverse of the readers beside this. No I/O: who writes gets bytes.

pub mod anchor;
pub mod elements;
pub mod envelope;
pub mod page;
pub mod page_list;
pub mod schema;
pub mod walk;
mod wire;
