//! The trees of a merge's inputs: the facts in their records, the union of their branches, and the filling of missing
//! branches and entries.

pub(crate) mod difference;
pub(crate) mod facts;
pub(crate) mod filling;
pub(crate) mod input;
pub(crate) mod made_basket;
pub(crate) mod missing;
pub(crate) mod union;
pub(crate) mod unions;
