//! Baskets of TTrees: copied, compressed in another way, or filled with the entries of others.

pub(crate) mod copy;
pub(crate) mod counting;
pub(crate) mod forms;
pub(crate) mod recompress;
pub(crate) mod rewrite;
pub(crate) mod source;
