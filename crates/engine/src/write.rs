//! Files are written: merged, laid out in another way, or made from columns.

mod baskets;
pub mod columns;
pub mod compare;
mod journal;
pub mod merge;
mod new_file;
mod objects_file;
pub mod output;
mod pages;
mod parallel;
mod pool;
mod products;
mod selection;

pub use baskets::rewrite::{ClusterSize, Rewriting};
pub use objects_file::{NewObject, ObjectsFile};
pub use selection::Selection;
