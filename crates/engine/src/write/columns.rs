//! Files made from columns of values: an RNTuple or a TTree.

mod branches;
mod entries;
mod fields;
mod fill;
mod ntuple;
mod tree;

pub use super::pages::cluster::Layout;
pub use fields::Shown;
pub(crate) use ntuple::ROOT_VERSION;
pub use ntuple::{ColumnsWriter, NewNtuple, NtupleWriter, Written};
pub use tree::TreeWriter;
