//! TTree and its branches, leaves and baskets (ROOT's "TTree" format description).

pub(crate) mod builtin;
pub mod embedded;
mod late;
mod legacy;
pub(crate) mod members;
pub mod meta;
mod program;
mod walk;

pub use meta::{read_tree, Basket, BranchAbout, ElementBranch, Place, TBranch, TLeaf, TTree};
pub use program::Basic;
