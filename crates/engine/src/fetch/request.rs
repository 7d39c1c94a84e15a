//! What is fetched of a tree for a chunk.

use std::ops::Range;
use std::sync::Arc;

use crate::fetch::room::Room;
use crate::file::File;

/// A basket that a chunk needs: its column in the chunk and its index in the branch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needed {
    pub(crate) column: usize,
    pub(crate) basket: usize,
}

/// A basket of a tree: the index of its branch, and its own index in the branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct BasketId {
    pub(crate) branch: usize,
    pub(crate) basket: usize,
}

impl Needed {
    /// The basket, in a chunk or request with these branches.
    pub(crate) fn id(self, branches: &[usize]) -> BasketId {
        BasketId { branch: branches[self.column], basket: self.basket }
    }
}

/// Baskets of a tree, and the entries for which they are needed.
pub(crate) struct FetchRequest<'a> {
    /// The file of the tree.
    pub(crate) file: &'a Arc<File>,
    pub(crate) entries: &'a Range<u64>,
    /// Indices of the branches, which the columns of `needed` count.
    pub(crate) branches: &'a [usize],
    pub(crate) needed: &'a [Needed],
    /// Where the memory comes from.
    pub(crate) room: Room<'a>,
}
