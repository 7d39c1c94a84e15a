//! What is made of the objects of several files. `kind.rs` says what a kind of object must be able to do, `list.rs` has
//! the kinds, and each of them has a file.

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
