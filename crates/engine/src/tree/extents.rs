//! The location of a basket or of an RNTuple page in the file.
//!
//! ```
//! use branchline_engine::tree::extents::Extent;
//!
//! let basket = Extent { offset: 4000, size: 800, entries: 0..250 };
//! assert_eq!(basket.entries.end - basket.entries.start, 250);
//! ```

use std::ops::Range;

/// The location of a basket or page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    /// Offset in the file.
    pub offset: u64,
    /// Size in the file, in bytes.
    pub size: u64,
    /// The entries whose values the basket or page holds. For a page whose entries are not in the metadata, these are
    /// the entries of its cluster.
    pub entries: Range<u64>,
}
