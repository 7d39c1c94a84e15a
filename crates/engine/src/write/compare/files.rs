//! The files on one side of a comparison.

use branchline_storage::Access;

use crate::write::products::tree_input::unions::Unions;

/// A tree whose entries are in several files, one after another.
#[derive(Clone, Copy)]
pub(crate) struct ComparedFiles<'a> {
    /// Paths or URLs of the files.
    pub(crate) files: &'a [String],
    /// The path of the tree.
    pub(crate) tree: &'a str,
    /// How the files are read.
    pub(crate) access: &'a Access,
    /// The branches to fill in trees that lack them, and the fields to fill in RNTuples.
    pub(crate) unions: &'a Unions,
}
