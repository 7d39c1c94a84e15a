//! A TTree made of several.

pub(crate) mod input;
pub(crate) mod missing;
pub(crate) mod same_branches;
pub(crate) mod totals;
