//! TTree and its branches, leaves and baskets (ROOT's "TTree" format description).

mod collect;
pub mod embedded;
mod late_branches;
pub(crate) mod members;
mod model;
pub(crate) mod read;

pub use model::{Basket, BranchInfo, ElementBranch, Place, TBranch, TLeaf, TTree};
pub use read::read_tree;
