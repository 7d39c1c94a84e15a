//! Creates files from columns of values: an RNTuple or a TTree.
//!
//! ```
//! use branchline_engine::error::Result;
//! use branchline_engine::write::columns::{ColumnsFile, NamedColumn, NewColumnsFile, Values};
//!
//! /// Writes `count` entries into a new TTree.
//! fn write(new: NewColumnsFile, fields: &[NamedColumn<'_>], values: &[Values<'_>], count: usize) -> Result<()> {
//!     let mut file = ColumnsFile::tree(new, fields)?;
//!     file.fill(values, count)?;
//!     file.finish()?;
//!     Ok(())
//! }
//! ```

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
