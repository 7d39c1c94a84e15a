//! Files are written: merged, laid out in another way, or made from columns.
//!
//! From the bottom up: what is asked for (`request`) and where things come to lie (`placed`); the file that is written
//! (`output`, `new_file`) and the journal of it; `baskets` and `pages`, which are copied, compressed in another way or
//! filled again; `products`, one for each kind of object; and `merge`, `compare` and `columns`, which use all of it.

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
