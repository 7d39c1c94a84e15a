//! Baskets that are made anew: compressed in another way, or of other entries.

mod counting;
mod forms;
mod pool;
mod recompress;
mod selection;
mod slow;
mod source;

pub(crate) use counting::{counter_of, Counting};
pub(crate) use forms::forms;
pub(crate) use recompress::Recompressor;
pub use selection::Selection;
pub use slow::{ClusterSize, Rewriting};
pub(crate) use slow::{Flushed, Laid, LaidBasket, Rewriter, Rewritten};
