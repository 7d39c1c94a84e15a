//! Requests for the baskets that a chunk needs from a tree.

use std::ops::Range;
use std::sync::Arc;

use crate::fetch::room::Room;
use crate::file::File;

/// A basket that a chunk needs, as the column in the chunk and the index of the basket in its branch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needed {
    pub(crate) column: usize,
    pub(crate) basket: usize,
}

/// A basket of a tree, as the index of the branch and the index of the basket in the branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct BasketId {
    pub(crate) branch: usize,
    pub(crate) basket: usize,
}

impl Needed {
    /// Returns the ID of the basket in a chunk or request with these branches.
    pub(crate) fn id(self, branches: &[usize]) -> BasketId {
        BasketId { branch: branches[self.column], basket: self.basket }
    }
}

/// Baskets to fetch from a tree, and the entries for which they are needed.
pub(crate) struct FetchRequest<'a> {
    /// The file that contains the tree.
    pub(crate) file: &'a Arc<File>,
    pub(crate) entries: &'a Range<u64>,
    /// Indices of the branches; `column` in `needed` is an index into this list.
    pub(crate) branches: &'a [usize],
    pub(crate) needed: &'a [Needed],
    /// The source of memory for the fetched bytes.
    pub(crate) room: Room<'a>,
}
