//! Files made from columns of values: an RNTuple or a TTree.

mod branches;
mod entries;
mod fields;
mod fill;
mod ntuple;
mod tree;
mod writer;

pub use super::pages::cluster::Layout;
pub use fields::Shown;
pub use ntuple::NtupleWriter;
pub use tree::TreeWriter;
pub(crate) use writer::ROOT_VERSION;
pub use writer::{ColumnsWriter, NamedColumn, NewColumnsFile, Written};
