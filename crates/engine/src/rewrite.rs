//! Baskets that are made anew: compressed in another way.

mod pool;
mod recompress;
mod selection;
mod slow;
mod source;

pub(crate) use recompress::Recompressor;
pub use selection::Selection;
pub(crate) use slow::{BranchForm, Laid, LaidBasket, Rewriter, Rewritten};
pub use slow::{ClusterSize, Rewriting};
