//! From baskets and pages to values at their place in the output.

pub(crate) mod baskets;
pub mod chunk;
pub(crate) mod clock;
pub(crate) mod effort;
pub(crate) mod joining;
pub(crate) mod pages;
pub(crate) mod task;
pub(crate) mod tools;
pub(crate) mod worker;
