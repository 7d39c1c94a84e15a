//! From ranges to bytes in memory: requests, prefetching, and the order of files.

pub(crate) mod basket_source;
pub(crate) mod baskets;
pub(crate) mod file_order;
pub(crate) mod pages;
pub(crate) mod prefetch;
pub(crate) mod ranges;
pub(crate) mod request;
pub(crate) mod room;
