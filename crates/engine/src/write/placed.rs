//! The locations of baskets and pages in an output.

/// The location of a basket or a page in an output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Placed {
    /// First entry of the basket. If the basket was copied, the entry is relative to the input's tree; if it is new,
    /// relative to the output's tree.
    pub(crate) first_entry: u64,
    pub(crate) seek: u64,
    pub(crate) size: u64,
    /// Size before compression. For a basket, this includes the key; for a page, it is the size of the page's elements.
    pub(crate) plain_size: u64,
    /// Digest of all bytes that do not depend on the location; 0 if it was not computed.
    pub(crate) digest: u64,
}

/// The locations of all baskets, for each branch.
pub(crate) type Places = Vec<Vec<Placed>>;

/// A basket in an output, with the index of its branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlacedBasket {
    pub(crate) branch: usize,
    pub(crate) place: Placed,
}

/// New baskets that were written together, in file order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PlacedCluster {
    pub(crate) entries_count: u64,
    pub(crate) baskets: Vec<PlacedBasket>,
}
