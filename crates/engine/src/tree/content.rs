//! The interface that all kinds of trees implement. The implementations are in `ttree.rs` and `rntuple.rs`;
//! `open_tree.rs` chooses between them.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use branchline_format::column::Column;
use branchline_format::error::FormatError;
use branchline_format::layout::{Kind, Layout};
use branchline_format::ntuple::form::{FixedNumbers, Form};
use branchline_storage::ByteRange;

use crate::error::{ReadError, Result};
use crate::fetch::basket_source::{BasketSource, Carried};
use crate::fetch::request::FetchRequest;
use crate::file::File;
use crate::tree::branch_info::{BranchInfo, State};
use crate::tree::extents::Extent;

/// A tree as stored in its file. Branches are addressed by index, and a parent comes before its children. The baskets
/// of each branch are in entry order. In all methods, `file` is the file of the tree, from which more metadata may be
/// read.
pub(crate) trait Content: Debug + Send + Sync {
    /// The title of the tree.
    fn title(&self) -> &str;

    /// Number of entries according to the metadata.
    fn entries_count(&self) -> u64;

    /// Number of branches.
    fn branches_count(&self) -> usize;

    /// The path of a branch: the names of its ancestors, followed by its own name.
    fn branch_path(&self, branch: usize) -> &str;

    /// The name of a branch, without its ancestors.
    fn branch_name(&self, branch: usize) -> &str;

    /// The separator between the names in a path.
    fn separator(&self) -> &'static str;

    /// Whether the tree has aliases, an index or friends.
    fn has_relatives(&self) -> bool;

    /// Whether parent branches contain all data of their child branches.
    fn nests(&self) -> bool;

    /// The parent of a branch.
    fn parent(&self, branch: usize) -> Option<usize>;

    /// The branch with the element counts of a variable-length branch.
    fn counter(&self, branch: usize) -> Option<usize>;

    /// The kind of a TTree branch; None for other kinds of trees.
    fn kind(&self, branch: usize) -> Option<&Kind>;

    /// The layout of the entries of a branch.
    fn shape(&self, branch: usize) -> std::result::Result<Shape<'_>, Unreadable<'_>>;

    /// Whether a branch is read by default. Such a branch can be read, and no other branch contains its values.
    fn is_read_by_default(&self, branch: usize) -> bool;

    /// Whether a branch has fewer entries than the tree, so that it cannot be a column of a table with the other
    /// branches.
    fn is_short(&self, branch: usize) -> bool;

    /// Whether a branch can be read.
    fn state(&self, branch: usize) -> State;

    /// The metadata of a branch, as shown to users.
    fn branch_info(&self, file: &File, branch: usize) -> BranchInfo;

    /// The file with the baskets of a branch, if it differs from the file of the tree.
    fn other_home(&self, branch: usize) -> Option<&Arc<File>>;

    /// Other files that contain baskets of the tree.
    fn other_files(&self) -> Vec<&Arc<File>>;

    /// Offset at which the metadata start, if all metadata are together at the end of the file.
    fn metadata_start(&self, file: &File, record_start: u64) -> Option<u64>;

    /// Returns the indices of the baskets of a branch that overlap these entries. If an entry is in no basket, the
    /// error is the first such entry.
    fn baskets_of(
        &self,
        file: &File,
        branch: usize,
        entries: &Range<u64>,
    ) -> Result<std::result::Result<Range<usize>, u64>>;

    /// The entry range of a basket.
    fn basket_entries(&self, file: &File, branch: usize, basket: usize) -> Range<u64>;

    /// The entry ranges of all baskets of a branch.
    fn all_basket_entries(&self, file: &File, branch: usize) -> Vec<Range<u64>>;

    /// The name of a basket in error messages.
    fn basket_name(&self, branch: usize, basket: usize) -> String;

    /// The range of a basket, if it is a single record in a file.
    fn basket_place(&self, branch: usize, basket: usize) -> Option<ByteRange>;

    /// The extents of the baskets or pages of a branch in the file of the tree, in entry order.
    fn extents(&self, file: &File, branch: usize) -> Result<Vec<Extent>>;

    /// Whether the metadata name the codec of every basket.
    fn names_codecs(&self) -> bool;

    /// The ranges of a basket that are needed for these entries, if the metadata suffice to determine the ranges.
    fn basket_ranges(&self, file: &File, branch: usize, basket: usize, entries: &Range<u64>) -> Result<Vec<ByteRange>>;

    /// The end of the last entry stored in any branch.
    fn stored_entries_end(&self, file: &File) -> Result<u64>;

    /// Entries at which all these branches begin a basket.
    fn common_starts(&self, file: &File, branches: &[usize]) -> Vec<u64>;

    /// The branch with the most bytes in the file.
    fn largest_branch(&self) -> Option<usize>;

    /// The total size of the baskets that span an entry, for each of these entries, in order.
    fn cut_bytes(&self, borders: &[u64]) -> Vec<u64>;

    /// Total size of these branches in the file, and their total size after decompression.
    fn stored_bytes(&self, file: &File, branches: &[usize]) -> StoredBytes;

    /// Memory per entry for the values of a branch.
    fn values_per_entry(&self, file: &File, branch: usize) -> ValueBytes;

    /// Estimated size of the largest basket of a branch, from averages.
    fn largest_basket(&self, file: &File, branch: usize) -> BasketBytes;

    /// Number of bytes to fetch for these entries of a basket; 0 if the basket is in memory.
    fn fetched_bytes(&self, file: &File, branch: usize, basket: usize, entries: &Range<u64>) -> u64;

    /// Fetches the baskets of a request, in order. Baskets that extend beyond the entries of the request are kept in
    /// `carried` for the next request. Baskets that the previous request kept in `before` are not fetched again.
    fn fetch(&self, request: &FetchRequest<'_>, before: &Carried, carried: &mut Carried) -> Result<Vec<BasketSource>>;
}

/// The layout of the entries of a branch.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape<'a> {
    /// The entries are in baskets with this layout.
    Baskets(&'a Layout),
    /// The entries are in clusters of a field with this form.
    Clusters(&'a Form),
}

/// Why a branch cannot be read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unreadable<'a> {
    /// The branch has no values of its own and only groups other branches.
    Group,
    /// The kind of branch is not supported, or its metadata are damaged.
    Format { class_name: &'a str, error: &'a FormatError },
    /// The baskets are in another file, which could not be opened.
    OtherFile(&'a ReadError),
}

/// The size of branches in the file, and their size after decompression.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StoredBytes {
    pub(crate) stored: u64,
    pub(crate) plain: u64,
}

/// The memory per entry for the values of a branch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ValueBytes {
    pub(crate) bytes: f64,
    /// Whether the values are decoded directly into their final buffer, instead of being joined from pieces.
    pub(crate) is_in_place: bool,
}

/// Size of a basket: its stored bytes, and the memory for decompressing it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BasketBytes {
    pub(crate) stored: u64,
    pub(crate) scratch: u64,
}

impl Shape<'_> {
    /// Returns a column with no entries.
    pub(crate) fn empty(self) -> Column {
        match self {
            Self::Baskets(layout) => Column::empty(layout),
            Self::Clusters(form) => form.empty(),
        }
    }

    /// Whether the entries have a variable number of elements.
    pub(crate) fn is_run(self) -> bool {
        match self {
            Self::Baskets(layout) => matches!(layout, Layout::Run { .. }),
            Self::Clusters(form) => matches!(form, Form::List { .. }),
        }
    }

    /// The numeric type of a branch whose values are decoded directly into their final buffer.
    pub(crate) fn numbers(self) -> Option<Numbers> {
        match self {
            Self::Baskets(Layout::Fixed { scalar, dimensions } | Layout::Run { scalar, dimensions, .. }) => {
                Some(Numbers { dtype: scalar.dtype(), size: scalar.size(), dimensions: dimensions.clone() })
            }
            Self::Baskets(_) => None,
            Self::Clusters(form) => {
                let FixedNumbers { number, dimensions } = form.fixed().or_else(|| form.run())?;
                Some(Numbers { dtype: number.dtype(), size: number.size(), dimensions })
            }
        }
    }
}

/// A numeric type: its NumPy name, the size of a number in bytes, and the dimensions of an element.
#[derive(Debug)]
pub(crate) struct Numbers {
    pub(crate) dtype: &'static str,
    pub(crate) size: usize,
    pub(crate) dimensions: Vec<usize>,
}
