//! TTree and its branches, leaves and baskets (ROOT's "TTree" format description).
//!
//! ```
//! use branchline_format::classes::streamer::ClassInfos;
//! use branchline_format::tree::read_tree;
//!
//! assert!(read_tree(b"no tree", 0, "TTree", &ClassInfos::default()).is_err());
//! ```

pub(crate) mod branch_layout;
mod collect;
mod late_branches;
pub(crate) mod members;
mod model;
pub(crate) mod read;
mod type_name;

pub use branch_layout::kind_of;
pub use model::{Basket, BranchInfo, ElementBranch, Place, TBranch, TLeaf, TTree};
pub use read::read_tree;
pub use type_name::type_name;
