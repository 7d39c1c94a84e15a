//! The files on one side of a comparison.

use branchline_storage::Access;

use crate::write::products::tree_input::unions::Unions;

/// A tree of some files, one file behind the other.
#[derive(Clone, Copy)]
pub(crate) struct ComparedFiles<'a> {
    /// Paths or URLs.
    pub(crate) files: &'a [String],
    /// The path of the tree.
    pub(crate) tree: &'a str,
    /// How they are read.
    pub(crate) access: &'a Access,
    /// The branches and fields that trees get where they lack them.
    pub(crate) unions: &'a Unions,
}
