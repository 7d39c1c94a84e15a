//! RNTuples are written: merged from others, page by page or value by value, and made from columns.

mod cluster;
mod copy;
mod fields;
mod fill;
mod input;
mod merge;
pub(crate) mod parallel;
mod prune;
mod reading;
mod rewrite;
mod schema;
mod sink;
mod writer;
mod zeros;

pub use cluster::Layout;
pub use fields::Shown;
pub(crate) use merge::{NtupleCopy, NtupleInput, NtupleTotals, PageCopying};
pub(crate) use writer::{frame as frame_of, refuse};
pub use writer::{ColumnsWriter, NewNtuple, NtupleWriter, Written};
