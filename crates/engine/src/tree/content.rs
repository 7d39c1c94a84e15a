//! What differs between the kinds of trees. `ttree.rs` and `rntuple.rs` implement it; `open_tree.rs` chooses one of
//! them.

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

/// A tree as its file stores it. Branches are named by their indices; a parent comes before its children. Each branch
/// has baskets in the order of their entries. `file` is the file of the tree, from which metadata may be read.
pub(crate) trait Content: Debug + Send + Sync {
    /// Its title.
    fn title(&self) -> &str;

    /// The number of its entries, as its metadata say.
    fn entries_count(&self) -> u64;

    /// Its branches.
    fn branches_count(&self) -> usize;

    /// The path of a branch: the names of its parents and its own.
    fn branch_path(&self, branch: usize) -> &str;

    /// A branch's own name.
    fn branch_name(&self, branch: usize) -> &str;

    /// The separator between the names of a path.
    fn separator(&self) -> &'static str;

    /// Whether it has aliases, an index or friends.
    fn has_relatives(&self) -> bool;

    /// Whether a branch holds all that the branches below it hold.
    fn nests(&self) -> bool;

    /// The parent of a branch.
    fn parent(&self, branch: usize) -> Option<usize>;

    /// The branch that counts the elements in each entry of another.
    fn counter(&self, branch: usize) -> Option<usize>;

    /// What a branch of a TTree holds; None for other kinds of trees.
    fn kind(&self, branch: usize) -> Option<&Kind>;

    /// What the entries of a branch are made from.
    fn shape(&self, branch: usize) -> std::result::Result<Shape<'_>, Unreadable<'_>>;

    /// Whether a branch is read when none are named: it can be read, and no other holds its values.
    fn is_read_by_default(&self, branch: usize) -> bool;

    /// Whether a branch has fewer entries than the tree, so that arrays of both cannot be in one table.
    fn is_short(&self, branch: usize) -> bool;

    /// Whether a branch can be read.
    fn state(&self, branch: usize) -> State;

    /// The metadata of a branch, as they are shown to users.
    fn branch_info(&self, file: &File, branch: usize) -> BranchInfo;

    /// The file that holds the baskets of a branch, if it is another one than that of the tree.
    fn other_home(&self, branch: usize) -> Option<&Arc<File>>;

    /// Other files that hold baskets of its branches.
    fn other_files(&self) -> Vec<&Arc<File>>;

    /// Where its metadata begin, if they lie together at the end of the file.
    fn metadata_start(&self, file: &File, record_start: u64) -> Option<u64>;

    /// Indices of the baskets of a branch that overlap these entries, or the first entry that is in none.
    fn baskets_of(
        &self,
        file: &File,
        branch: usize,
        entries: &Range<u64>,
    ) -> Result<std::result::Result<Range<usize>, u64>>;

    /// The entries of a basket of a branch.
    fn basket_entries(&self, file: &File, branch: usize, basket: usize) -> Range<u64>;

    /// The entries of all baskets of a branch.
    fn all_basket_entries(&self, file: &File, branch: usize) -> Vec<Range<u64>>;

    /// What a basket of a branch is called in errors.
    fn basket_name(&self, branch: usize, basket: usize) -> String;

    /// Where a basket lies, if it is one record in a file.
    fn basket_place(&self, branch: usize, basket: usize) -> Option<ByteRange>;

    /// Where the baskets or pages of a branch lie in the file of the tree, in the order of entries.
    fn extents(&self, file: &File, branch: usize) -> Result<Vec<Extent>>;

    /// Whether the metadata name the codec of every basket.
    fn names_codecs(&self) -> bool;

    /// The ranges of a basket that hold these entries, if metadata are enough to know them.
    fn basket_ranges(&self, file: &File, branch: usize, basket: usize, entries: &Range<u64>) -> Result<Vec<ByteRange>>;

    /// The end of the last entry that any branch has.
    fn stored_entries_end(&self, file: &File) -> Result<u64>;

    /// Entries at which baskets of all these branches begin.
    fn common_starts(&self, file: &File, branches: &[usize]) -> Vec<u64>;

    /// The branch with most bytes in the file.
    fn largest_branch(&self) -> Option<usize>;

    /// For each of these entries, in their order, the bytes of all baskets that begin before and end behind it.
    fn cut_bytes(&self, borders: &[u64]) -> Vec<u64>;

    /// What these branches take in the file and after decompression.
    fn stored_bytes(&self, file: &File, branches: &[usize]) -> StoredBytes;

    /// What the values of a branch take per entry in memory.
    fn values_per_entry(&self, file: &File, branch: usize) -> ValueBytes;

    /// What the largest basket of a branch takes, as estimated from averages.
    fn largest_basket(&self, file: &File, branch: usize) -> BasketBytes;

    /// Bytes that are fetched for these entries of a basket; none for what is in memory.
    fn fetched_bytes(&self, file: &File, branch: usize, basket: usize, entries: &Range<u64>) -> u64;

    /// Fetches the baskets of a request, in their order. What reaches beyond the entries of the request is left in
    /// `carried` for the next one; what the request before left in `before` is not fetched again.
    fn fetch(&self, request: &FetchRequest<'_>, before: &Carried, carried: &mut Carried) -> Result<Vec<BasketSource>>;
}

/// What the entries of a branch are made from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape<'a> {
    /// Baskets of this layout.
    Baskets(&'a Layout),
    /// Clusters of a field of this form.
    Clusters(&'a Form),
}

/// Why a branch cannot be read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unreadable<'a> {
    /// It only groups others.
    Group,
    /// Its kind is not supported, or its metadata are damaged.
    Format { class_name: &'a str, error: &'a FormatError },
    /// Its baskets are in another file, which cannot be opened.
    OtherFile(&'a ReadError),
}

/// What branches take in the file, and after decompression.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StoredBytes {
    pub(crate) stored: u64,
    pub(crate) plain: u64,
}

/// What the values of an entry take in memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ValueBytes {
    pub(crate) bytes: f64,
    /// Whether they are decoded to the place where they stay, and not put together from pieces.
    pub(crate) is_in_place: bool,
}

/// What a basket takes: its stored bytes, and what decompressing it takes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BasketBytes {
    pub(crate) stored: u64,
    pub(crate) scratch: u64,
}

impl Shape<'_> {
    /// The column of no entries.
    pub(crate) fn empty(self) -> Column {
        match self {
            Self::Baskets(layout) => Column::empty(layout),
            Self::Clusters(form) => form.empty(),
        }
    }

    /// Whether its entries have any number of elements.
    pub(crate) fn is_run(self) -> bool {
        match self {
            Self::Baskets(layout) => matches!(layout, Layout::Run { .. }),
            Self::Clusters(form) => matches!(form, Form::List { .. }),
        }
    }

    /// The numbers of a branch whose values are decoded to the place where they stay.
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

/// Numbers of one type: NumPy's name for it, bytes of one, and the dimensions of an element.
#[derive(Debug)]
pub(crate) struct Numbers {
    pub(crate) dtype: &'static str,
    pub(crate) size: usize,
    pub(crate) dimensions: Vec<usize>,
}
