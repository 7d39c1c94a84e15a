//! Combines the objects of several files. `kind.rs` defines the interface that each kind of object implements, and
//! `list.rs` lists all kinds. Each kind has its own module.

mod directory;
pub(crate) mod holdings;
pub(crate) mod kind;
pub(crate) mod list;
mod ntuple;
mod object;
pub(crate) mod output;
pub(crate) mod source;
pub(crate) mod tree;
pub(crate) mod tree_input;
