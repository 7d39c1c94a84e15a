//! Where a basket of a branch, or a page of a field of an RNTuple, lies in the file.

use std::ops::Range;

/// Where a basket or page lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    /// Its first byte in the file.
    pub offset: u64,
    /// Its bytes in the file.
    pub size: u64,
    /// The entries that it has values of; those of its cluster where the metadata do not give those of a page.
    pub entries: Range<u64>,
}
