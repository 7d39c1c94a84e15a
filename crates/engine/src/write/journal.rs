//! The journal of a merge: a file in the output folder that lists which inputs and clusters are safely in the output,
//! so that a killed merge can be resumed. The journal is removed when the merge ends.

pub(crate) mod checkpoints;
mod file;
pub(crate) mod records;
mod writer;
