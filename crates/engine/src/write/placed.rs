//! Where baskets and pages lie in an output.

/// Where a basket or a page lies in an output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Placed {
    /// First entry of a basket: in the tree of its input where it was copied, in that of the output where it is new.
    pub(crate) first_entry: u64,
    pub(crate) seek: u64,
    pub(crate) size: u64,
    /// Bytes of a basket before compression, key included; of a page its elements.
    pub(crate) plain_size: u64,
    /// Digest of all bytes but the place itself; 0 if it was not computed.
    pub(crate) digest: u64,
}

/// Where the baskets of each branch lie.
pub(crate) type Places = Vec<Vec<Placed>>;

/// A basket in an output with the number of its branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlacedBasket {
    pub(crate) branch: usize,
    pub(crate) place: Placed,
}

/// New baskets that were written together, in the order in which they lie.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PlacedCluster {
    pub(crate) entries_count: u64,
    pub(crate) baskets: Vec<PlacedBasket>,
}
