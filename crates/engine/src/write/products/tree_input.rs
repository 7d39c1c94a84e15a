//! The trees of the inputs of a merge: what they contain, their union, and what is filled in.

pub(crate) mod difference;
pub(crate) mod facts;
pub(crate) mod filling;
pub(crate) mod input;
pub(crate) mod made_basket;
pub(crate) mod missing;
pub(crate) mod union;
pub(crate) mod unions;
