//! A chunk in progress: columns over an entry range of one tree, filled basket by basket by many threads.
//!
//! ```no_run
//! use branchline_engine::file::File;
//! use branchline_engine::read::read_now::read_now;
//! use branchline_slab::Pool;
//! use branchline_storage::Access;
//!
//! let tree = File::open("data.root", &Access::default())?.tree(Some("events"))?;
//! let chunk = read_now(&tree, vec![0], 0..10, &Pool::new(1 << 20))?;
//! assert_eq!(chunk.entries_count(), 10);
//! assert!(!chunk.failed());
//! let columns = chunk.take()?;
//! # Ok::<(), branchline_engine::error::ReadError>(())
//! ```

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use branchline_format::column::Column;
use branchline_format::error::FormatError;
use branchline_slab::{Buffer, Pool, SharedSlab, Slab};
use branchline_trace::Counter;

use crate::error::{guarded, ReadError, Result};
use crate::read::decode::effort::ColumnCost;
use crate::read::decode::joining::{joined_bytes, joined_offsets};
use crate::tree::content::{Numbers, Shape};
use crate::tree::Tree;

/// The position of a basket in a chunk. If several baskets fail, the error of the first basket in this order is
/// reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct BasketOrder {
    pub(crate) column: usize,
    pub(crate) basket: usize,
}

/// A finished column.
pub type Values = Column<Buffer, Buffer>;

/// A column whose baskets are still being decoded.
#[derive(Debug)]
pub(crate) enum UnfinishedColumn {
    /// Each basket is decoded directly into the final buffers.
    InPlace { values: SharedSlab, offsets: Option<SharedSlab> },
    /// Each basket is decoded into a piece, and the pieces are joined at the end.
    Pieces(Vec<Option<Column>>),
}

/// A chunk: columns over an entry range of a tree.
#[derive(Debug)]
pub struct Chunk {
    /// The tree of the chunk.
    pub tree: Arc<Tree>,
    /// Index of the source in the stream.
    pub source_index: usize,
    /// The entry range.
    pub entries: Range<u64>,
    /// Indices of the branches.
    pub columns: Vec<usize>,
    /// Cost of each column.
    pub costs: Vec<ColumnCost>,
    pub(crate) pool: Arc<Pool>,
    /// Number of live reporters. The chunk is finished when this number drops to zero.
    reporters: AtomicUsize,
    state: Mutex<State>,
    finished: Condvar,
}

#[derive(Debug, Default)]
struct State {
    unfinished: Vec<Option<UnfinishedColumn>>,
    /// The error of the first failed basket in order, so that the same file always gives the same message.
    error: Option<(BasketOrder, ReadError)>,
    is_finished: bool,
    values: Vec<Option<Values>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Chunk {
    pub(crate) fn new(
        tree: Arc<Tree>,
        source_index: usize,
        entries: Range<u64>,
        columns: Vec<usize>,
        pool: &Arc<Pool>,
    ) -> Self {
        let costs = columns.iter().map(|_| ColumnCost::default()).collect();
        let state = State { unfinished: columns.iter().map(|_| None).collect(), ..State::default() };
        Self {
            tree,
            source_index,
            entries,
            columns,
            costs,
            pool: Arc::clone(pool),
            reporters: AtomicUsize::new(0),
            state: Mutex::new(state),
            finished: Condvar::new(),
        }
    }

    /// Creates an internal error that names this chunk.
    pub(crate) fn internal(&self, message: &str) -> ReadError {
        let Range { start, end } = self.entries;
        let object = format!("tree {}, entries {start} to {end}", self.tree.path());
        ReadError::internal(self.tree.file().path(), format!("{object}: {message}"))
    }

    /// Number of entries.
    pub fn entries_count(&self) -> usize {
        (self.entries.end - self.entries.start) as usize
    }

    /// Adds a column before any of its baskets is decoded.
    pub(crate) fn begin_column(&self, column: usize, column_parts: UnfinishedColumn) {
        if let Some(place) = lock(&self.state).unfinished.get_mut(column) {
            *place = Some(column_parts);
        }
    }

    pub(crate) fn put_piece(&self, column: usize, index: usize, piece: Column) {
        if let Some(Some(UnfinishedColumn::Pieces(pieces))) = lock(&self.state).unfinished.get_mut(column)
            && let Some(place) = pieces.get_mut(index)
        {
            *place = Some(piece);
        }
    }

    pub(crate) fn put_error(&self, order: BasketOrder, error: ReadError) {
        let mut state = lock(&self.state);
        if state.error.as_ref().is_none_or(|(before, _)| order < *before) {
            state.error = Some((order, error));
        }
    }

    fn finish(&self) {
        let (unfinished, failed) = {
            let mut state = lock(&self.state);
            (std::mem::take(&mut state.unfinished), state.error.is_some())
        };
        let mut values = Vec::new();
        if !failed {
            for (column, column_parts) in unfinished.into_iter().enumerate() {
                match guarded(self.tree.file().path(), || self.finish_column(column, column_parts)) {
                    Ok(one) => values.push(Some(one)),
                    Err(error) => {
                        self.put_error(BasketOrder { column, basket: 0 }, error);
                        break;
                    }
                }
            }
        }
        self.count();
        let mut state = lock(&self.state);
        state.values = values;
        state.is_finished = true;
        drop(state);
        self.finished.notify_all();
    }

    fn finish_column(&self, column: usize, column_parts: Option<UnfinishedColumn>) -> Result<Values> {
        let branch = self.columns[column];
        let shape = self.tree.shape(branch)?;
        match column_parts {
            Some(UnfinishedColumn::InPlace { values, offsets }) => {
                let unfinished = || self.internal("a basket is still being decoded");
                let values = values.close().ok_or_else(unfinished)?;
                let offsets = offsets.map(|offsets| offsets.close().ok_or_else(unfinished)).transpose()?;
                Ok(values_in_place(shape, values, offsets))
            }
            Some(UnfinishedColumn::Pieces(pieces)) => {
                let named = |error: FormatError| {
                    let object = format!("tree {}, branch {}", self.tree.path(), self.tree.branch_path(branch));
                    ReadError::from_format(self.tree.file().path(), &error.in_object(object))
                };
                let pieces = pieces.into_iter().flatten().collect();
                let joined = Column::joined_by(pieces, &mut |parts| joined_bytes(parts, &self.pool), &mut |parts| {
                    joined_offsets(parts, &self.pool)
                });
                let whole = joined.map_err(named)?;
                Ok(whole.unwrap_or_else(|| shape.empty().map(&mut Buffer::Bytes, &mut Buffer::Numbers)))
            }
            None => Err(self.internal("a column was never begun")),
        }
    }

    /// Adds the costs of the columns to the counters of the file.
    fn count(&self) {
        let counters = self.tree.file().counters();
        let sum =
            |of: fn(&ColumnCost) -> &AtomicU64| self.costs.iter().map(|cost| of(cost).load(Ordering::Relaxed)).sum();
        counters.add(Counter::Baskets, sum(|cost| &cost.baskets));
        counters.add(Counter::CompressedBytes, sum(|cost| &cost.compressed_bytes));
        counters.add(Counter::PlainBytes, sum(|cost| &cost.plain_bytes));
        counters.add(Counter::DecompressNs, sum(|cost| &cost.decompress_ns));
        counters.add(Counter::DecodeNs, sum(|cost| &cost.decode_ns));
    }

    /// Waits at most `timeout` for the chunk to be finished. Returns whether it is finished.
    pub fn wait(&self, timeout: Duration) -> bool {
        let state = lock(&self.state);
        let waited = self.finished.wait_timeout_while(state, timeout, |state| !state.is_finished);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_finished
    }

    /// Whether a basket before `order` could not be read, so that the basket at `order` is not needed.
    pub(crate) fn failed_before(&self, order: BasketOrder) -> bool {
        lock(&self.state).error.as_ref().is_some_and(|(first, _)| *first < order)
    }

    /// Whether any basket could not be read.
    pub fn failed(&self) -> bool {
        lock(&self.state).error.is_some()
    }

    /// The error of the first basket that could not be read, if any.
    pub fn error(&self) -> Option<ReadError> {
        lock(&self.state).error.as_ref().map(|(_, error)| error.clone())
    }

    /// Takes the columns of a finished chunk, in the order of `columns`.
    pub fn take(&self) -> Result<Vec<Values>> {
        let mut state = lock(&self.state);
        match &state.error {
            Some((_, error)) => Err(error.clone()),
            None => Ok(state.values.iter_mut().filter_map(Option::take).collect()),
        }
    }
}

/// A piece of work on a chunk: either queuing the chunk's baskets, or decoding one of them. The chunk is finished when
/// all reporters are dropped. Dropping a reporter without calling `done` marks the chunk as failed, so that the
/// consumer does not wait forever.
#[derive(Debug)]
pub(crate) struct Reporter {
    chunk: Arc<Chunk>,
    is_done: bool,
}

impl Reporter {
    pub(crate) fn new(chunk: &Arc<Chunk>) -> Self {
        chunk.reporters.fetch_add(1, Ordering::AcqRel);
        Self { chunk: Arc::clone(chunk), is_done: false }
    }

    /// Reports that the work is done, or that its error is stored in the chunk.
    pub(crate) fn done(mut self) {
        self.is_done = true;
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        if !self.is_done {
            // Sort this error last, because any other error is more specific.
            let order = BasketOrder { column: usize::MAX, basket: usize::MAX };
            self.chunk.put_error(order, self.chunk.internal("a task ended without a result"));
        }
        if self.chunk.reporters.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.chunk.finish();
        }
    }
}

fn values_in_place(shape: Shape<'_>, values: Slab, offsets: Option<Slab>) -> Values {
    let Some(Numbers { dtype, dimensions, .. }) = shape.numbers() else {
        // Only numbers are decoded in place, so a column of any other type has no entries here.
        return shape.empty().map(&mut Buffer::Bytes, &mut Buffer::Numbers);
    };
    let flat = Column::Flat { dtype, values: Buffer::Slab(values) };
    let content =
        dimensions.iter().rev().fold(flat, |content, size| Column::Regular { size: *size, content: Box::new(content) });
    match offsets {
        Some(offsets) => Column::List { offsets: Buffer::Slab(offsets), content: Box::new(content) },
        None => content,
    }
}
