//! Files made from columns of values: an RNTuple or a TTree.

mod baskets;
mod branches;
mod entries;
mod fields;
mod file;
mod fill;
mod ntuple;
mod resumed_ntuple;
mod resumed_tree;
mod tree;
mod writer;

pub use super::pages::cluster::Layout;
pub use fields::Shown;
pub use file::ColumnsFile;
pub(crate) use ntuple::OpenNtuple;
pub(crate) use tree::OpenTree;
pub use writer::{Filled, NamedColumn, NewColumnsFile, Values, Written};
pub(crate) use writer::{NewColumns, OpenColumns, ROOT_VERSION};
