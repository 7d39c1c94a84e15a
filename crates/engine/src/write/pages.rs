//! Pages of RNTuples, which are copied, recompressed, or filled with the elements of other pages.

pub(crate) mod blob;
pub(crate) mod cluster;
pub(crate) mod copy;
pub(crate) mod elements;
pub(crate) mod input;
pub(crate) mod join;
pub(crate) mod metadata;
pub(crate) mod prune;
pub(crate) mod ratio;
pub(crate) mod refill;
pub(crate) mod same;
pub(crate) mod union;
pub(crate) mod zeros;
