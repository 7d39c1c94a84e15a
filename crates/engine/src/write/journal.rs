//! The journal of a merge: a file in the folder of the output that lists the inputs and clusters which are surely
//! in the output, so that a merge that was killed can be resumed. It is removed when the merge ends.

pub(crate) mod checkpoints;
mod file;
pub(crate) mod records;
mod writer;
