//! Reads byte ranges into memory: requests, prefetching, and the order in which files are read.

pub(crate) mod basket_source;
pub(crate) mod baskets;
pub(crate) mod file_order;
pub(crate) mod pages;
pub(crate) mod prefetch;
pub(crate) mod ranges;
pub(crate) mod request;
pub(crate) mod room;
