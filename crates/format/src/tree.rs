//! TTree and its branches, leaves and baskets (ROOT's "TTree" format description).

pub(crate) mod builtin;
pub mod embedded;
mod late_branches;
pub(crate) mod members;
mod model;
mod old_versions;
mod program;
pub(crate) mod read;
mod walk;

pub use model::{Basket, BranchInfo, ElementBranch, Place, TBranch, TLeaf, TTree};
pub use read::read_tree;
