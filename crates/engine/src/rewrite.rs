//! Baskets that are made anew: compressed in another way.

mod pool;
mod recompress;

pub(crate) use recompress::Recompressor;
