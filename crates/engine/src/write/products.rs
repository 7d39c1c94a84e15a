//! What is made of the objects of several files: a TTree, an RNTuple, an object.

pub(crate) mod ntuple;
pub(crate) mod object;
pub(crate) mod tree;
