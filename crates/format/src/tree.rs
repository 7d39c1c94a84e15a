//! TTree and its branches, leaves and baskets (ROOT's "TTree" format description).

pub(crate) mod branch_layout;
mod collect;
mod late_branches;
pub(crate) mod members;
mod model;
pub(crate) mod read;
pub mod type_name;

pub use branch_layout::kind_of;
pub use model::{Basket, BranchInfo, ElementBranch, Place, TBranch, TLeaf, TTree};
pub use read::read_tree;
