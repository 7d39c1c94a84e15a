//! Baskets of TTrees, which are copied, recompressed, or filled with the entries of other baskets.

pub(crate) mod bundles;
pub(crate) mod copy;
pub(crate) mod counting;
pub(crate) mod digest;
pub(crate) mod forms;
pub(crate) mod recompress;
pub(crate) mod rewrite;
pub(crate) mod slices;
mod source;
