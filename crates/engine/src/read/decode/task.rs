//! The unit of work for decoders: one basket or several small ones, and the position of their values in a chunk.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

use branchline_format::basket::decode::Counts;
use branchline_format::error::{ErrorKind, FormatError};
use branchline_slab::Part;

use branchline_format::basket::ScratchBytes;
use branchline_storage::ByteRange;

use crate::error::{ReadError, Result};
use crate::fetch::basket_source::BasketSource;
use crate::fetch::request::BasketId;
use crate::memory::budget::TaskAtWork;
use crate::read::decode::chunk::{Chunk, Reporter};

/// The destination of a basket's values.
#[derive(Debug)]
pub(crate) enum Target {
    /// Values of fixed size, decoded in place.
    Fixed { values: Part },
    /// Variable-length entries, decoded in place: the values, and the offset of the end of each entry. `first_element`
    /// is the offset at which the first entry starts.
    Run { first_element: i64, offsets: Part, values: Part },
    /// A piece of the column. `counting` provides the element counts if the basket does not store them itself.
    Piece { index: usize, counting: Option<Arc<Counting>> },
}

/// The first stage of decoding baskets that do not store their element counts. The counts are in another branch, which
/// is decoded by the first decoder that needs them.
#[derive(Debug)]
pub(crate) struct Counting {
    pub(crate) chunk: Arc<Chunk>,
    pub(crate) tasks: Mutex<Vec<Task>>,
    pub(crate) counts: OnceLock<Result<Counts>>,
}

/// The countings that the baskets of a chunk need, by basket.
#[derive(Debug, Default)]
pub(crate) struct Countings(HashMap<BasketId, Arc<Counting>>);

impl Countings {
    pub(crate) fn insert(&mut self, basket: BasketId, counting: Arc<Counting>) {
        self.0.insert(basket, counting);
    }

    /// Returns the counting that a basket needs; None if the basket stores its element counts itself.
    pub(crate) fn of(&self, basket: BasketId) -> Option<Arc<Counting>> {
        self.0.get(&basket).cloned()
    }
}

/// A further basket of a task.
#[derive(Debug)]
pub(crate) struct Follower {
    pub(crate) source: BasketSource,
    pub(crate) basket: usize,
    pub(crate) basket_start: u64,
    pub(crate) entries_count: u64,
    pub(crate) entries: Range<usize>,
}

/// A basket to decode, or several small baskets that become one piece. A task drops its parts of the chunk's buffers
/// before it reports to the chunk.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) target: Target,
    pub(crate) source: BasketSource,
    pub(crate) chunk: Arc<Chunk>,
    pub(crate) column: usize,
    /// Index of the basket in its branch.
    pub(crate) basket: usize,
    /// The first entry of the basket; `entries_count` is the number of its entries according to the branch.
    pub(crate) basket_start: u64,
    pub(crate) entries_count: u64,
    /// The entries that belong to the chunk, relative to the first entry of the basket.
    pub(crate) entries: Range<usize>,
    /// The range of the basket in its file, if a trace is recorded.
    pub(crate) place: Option<ByteRange>,
    /// Memory for decompressing the basket.
    pub(crate) scratch: ScratchBytes,
    pub(crate) reporter: Reporter,
    /// Further object baskets of the task, which become part of the same piece.
    pub(crate) followers: VecDeque<Follower>,
    /// Registers the running task in the memory budget, because it will return memory.
    pub(crate) at_work: Option<TaskAtWork>,
}

impl Task {
    /// Drops the task without reporting an error to its chunk.
    pub(crate) fn cancel(self) {
        self.reporter.done();
    }

    /// Moves on to the next basket of the task. Returns false after the last basket.
    pub(crate) fn go_on(&mut self) -> bool {
        let Some(Follower { source, basket, basket_start, entries_count, entries }) = self.followers.pop_front() else {
            return false;
        };
        (self.source, self.basket, self.basket_start) = (source, basket, basket_start);
        (self.entries_count, self.entries) = (entries_count, entries);
        true
    }

    /// Total stored size of the task's baskets.
    pub(crate) fn stored_bytes(&self) -> usize {
        let followers = self.followers.iter().map(|one| one.source.stored_bytes());
        self.source.stored_bytes() + followers.sum::<usize>()
    }

    /// The name of the current basket in error messages.
    pub(crate) fn object(&self) -> String {
        let (tree, branch) = (&self.chunk.tree, self.chunk.columns[self.column]);
        let basket = tree.basket_name(branch, self.basket);
        format!("tree {}, branch {}: {basket}", tree.path(), tree.branch_path(branch))
    }

    pub(crate) fn format_error(&self, error: FormatError) -> ReadError {
        let path = self.chunk.tree.file().path();
        match error.kind {
            ErrorKind::Internal => self.internal_error(&error),
            ErrorKind::Unsupported | ErrorKind::NotRoot | ErrorKind::Truncated | ErrorKind::Damaged => {
                ReadError::from_format(path, &error.in_object(self.object()))
            }
        }
    }

    /// Creates an internal error about decoding the current basket.
    pub(crate) fn internal_error(&self, what: &dyn std::fmt::Display) -> ReadError {
        let entries = self.basket_start..self.basket_start + self.entries_count;
        let message = format!("{}, entries {} to {}: {what}", self.object(), entries.start, entries.end);
        ReadError::internal(self.chunk.tree.file().path(), message)
    }
}
