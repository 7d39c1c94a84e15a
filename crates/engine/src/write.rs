//! Writing files: merging, changing their layout, or creating them from columns.
//!
//! From the bottom up: the request (`request`) and locations in the output (`placed`); the output file (`output`,
//! `new_file`) and its journal; `baskets` and `pages`, which are copied, recompressed or refilled; `products`, with one
//! module for each kind of object; and `merge`, `compare` and `columns` on top.
//!
//! ```
//! use branchline_engine::write::Selection;
//!
//! // Entries 0 and 3 of four.
//! let selection = Selection::new(vec![0b1001_0000], 4);
//! assert_eq!(selection.map(|selection| selection.entries_count()), Some(4));
//! ```

mod baskets;
pub mod columns;
pub mod compare;
mod errors;
mod journal;
pub mod merge;
mod merged;
mod new_file;
pub mod output;
mod pages;
mod parallel;
mod placed;
mod process_ids;
mod products;
mod progress;
mod ranges;
mod request;
mod spare;
mod writable;

pub use merged::filled::FilledColumn;
pub use merged::{Merged, SkippedInput};
pub use request::selection::Selection;
pub use request::{BasketLayout, Branches, ClusterSize, MergeLimits, MergeRequest, Order};
pub use writable::{CopiedTree, Differences, Listed, NewObject, NewTable, WritableFile};
