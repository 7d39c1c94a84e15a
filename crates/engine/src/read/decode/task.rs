//! The work that the fetcher hands to the decoders: one basket each, with the place of its values in a chunk.

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

/// Where a basket's values go.
#[derive(Debug)]
pub(crate) enum Target {
    /// Values of fixed size.
    Fixed { values: Part },
    /// Runs: their offsets from `first_element` on, and their values.
    Run { first_element: i64, offsets: Part, values: Part },
    /// This piece of the column. `counting` gives the numbers of elements where the basket does not store them.
    Piece { index: usize, counting: Option<Arc<Counting>> },
}

/// The first stage of decoding some baskets: their entries are counted by another branch. Whichever decoder needs the
/// counts first decodes that branch.
#[derive(Debug)]
pub(crate) struct Counting {
    pub(crate) chunk: Arc<Chunk>,
    pub(crate) tasks: Mutex<Vec<Task>>,
    pub(crate) counts: OnceLock<Result<Counts>>,
}

/// The countings that baskets of a chunk need.
#[derive(Debug, Default)]
pub(crate) struct Countings(HashMap<BasketId, Arc<Counting>>);

impl Countings {
    pub(crate) fn insert(&mut self, basket: BasketId, counting: Arc<Counting>) {
        self.0.insert(basket, counting);
    }

    /// The counting that a basket needs; None if it stores the number of its elements itself.
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

/// One basket to decode, or small ones that make one piece. Its parts of the chunk's buffers are dropped before it
/// reports to the chunk.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) target: Target,
    pub(crate) source: BasketSource,
    pub(crate) chunk: Arc<Chunk>,
    pub(crate) column: usize,
    /// Index of the basket in its branch.
    pub(crate) basket: usize,
    /// Its first entry, and how many it has, as the branch says.
    pub(crate) basket_start: u64,
    pub(crate) entries_count: u64,
    /// Its entries that belong to the chunk, counted from its first one.
    pub(crate) entries: Range<usize>,
    /// Where it lies in its file, if a trace is recorded.
    pub(crate) place: Option<ByteRange>,
    /// What decompressing it takes.
    pub(crate) scratch: ScratchBytes,
    pub(crate) reporter: Reporter,
    /// Baskets of objects behind this one, which become the same piece.
    pub(crate) followers: VecDeque<Follower>,
    /// Counts it among the tasks that will give memory back.
    pub(crate) at_work: Option<TaskAtWork>,
}

impl Task {
    /// Drops it without an error in its chunk.
    pub(crate) fn cancel(self) {
        self.reporter.done();
    }

    /// Goes on with the next of its baskets; false if there is none.
    pub(crate) fn go_on(&mut self) -> bool {
        let Some(Follower { source, basket, basket_start, entries_count, entries }) = self.followers.pop_front() else {
            return false;
        };
        (self.source, self.basket, self.basket_start) = (source, basket, basket_start);
        (self.entries_count, self.entries) = (entries_count, entries);
        true
    }

    /// Bytes of its baskets as they are stored.
    pub(crate) fn stored_bytes(&self) -> usize {
        let followers = self.followers.iter().map(|one| one.source.stored_bytes());
        self.source.stored_bytes() + followers.sum::<usize>()
    }

    /// The basket, as errors name it.
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

    /// An error for a fault of Branchline while this basket is decoded.
    pub(crate) fn internal_error(&self, what: &dyn std::fmt::Display) -> ReadError {
        let entries = self.basket_start..self.basket_start + self.entries_count;
        let message = format!("{}, entries {} to {}: {what}", self.object(), entries.start, entries.end);
        ReadError::internal(self.chunk.tree.file().path(), message)
    }
}
