//! From a source to a tree that is ready to be read, in the fetcher's thread or ahead of it.

use std::cell::Cell;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use branchline_storage::limits::MAX_JOINED_BYTES;
use branchline_storage::{link_to, Choice, Store};

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::file::{Extent, File};
use crate::limits::{self, TAIL_BYTES};
use crate::read::budget::{Budget, Lease, Refusal};
use crate::read::memory_plan::{MemoryLimit, MemoryPlan, Shares};
use crate::read::prefetch::{PendingRange, Prefetcher, Turn};
use crate::read::source::{Options, Selection, Source, SourceTree};
use crate::read::strategy::{Strategy, WholeFiles};
use crate::read::tail_size::Ends;
use crate::tree::Tree;

/// A source whose tree is open.
pub(crate) struct Prepared {
    pub(crate) tree: Arc<Tree>,
    /// Its file is in memory until its last chunk is used up.
    pub(crate) file_lease: Option<Arc<Lease>>,
    pub(crate) columns: Vec<usize>,
    pub(crate) plan: MemoryPlan,
    pub(crate) entries: Range<u64>,
    /// What was asked for of its first chunk.
    pub(crate) asked: Vec<Arc<PendingRange>>,
}

/// What became of a source: its file, if that was opened, and what there is to read.
pub(crate) struct Opened {
    pub(crate) file: Option<Arc<File>>,
    pub(crate) prepared: Result<Prepared>,
}

/// Where the memory comes from for a file that is read whole.
pub(crate) enum FileRoom<'a> {
    /// From the stream's budget: waited for.
    Waiting(&'a Arc<Budget>),
    /// From what may be taken ahead, when it is this file's turn, or with what was kept for it. Such files are read in
    /// their order.
    Ahead(&'a Arc<Prefetcher>, usize, Cell<Claim>),
}

/// What a file that is opened ahead has before it is known what it takes.
#[derive(Default)]
pub(crate) enum Claim {
    #[default]
    Nothing,
    /// Its turn among the others.
    Turn(#[expect(dead_code, reason = "ends when it is dropped")] Turn),
    /// What was kept for it.
    Kept(Lease),
}

/// Why nothing was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotOpened {
    /// The stream was closed.
    Closed,
    /// There is no room ahead of the others.
    NoRoom,
}

/// How sources are opened.
#[derive(Clone)]
pub(crate) struct Opening {
    pub(crate) options: Arc<Options>,
    pub(crate) strategy: Strategy,
    pub(crate) memory_limit: MemoryLimit,
    pub(crate) shares: Shares,
    pub(crate) ends: Arc<Ends>,
}

impl Opening {
    /// Opens the tree of a source.
    pub(crate) fn open(&self, source: &Source, room: &FileRoom<'_>) -> std::result::Result<Opened, NotOpened> {
        let (file, tree_path) = match &source.tree {
            SourceTree::Open(tree) => {
                let (file, tree) = (Some(Arc::clone(tree.file())), Arc::clone(tree));
                return Ok(Opened { file, prepared: self.prepare(tree, None, source) });
            }
            SourceTree::Path(path, tree) => {
                let mut not_opened = None;
                let opened = self.open_file(path, room, &mut not_opened);
                (not_opened.map_or(Ok(opened), Err)?, tree)
            }
        };
        Ok(match file {
            Err(error) => Opened { file: None, prepared: Err(error) },
            Ok((file, lease)) => {
                let tree = file.tree(tree_path.as_deref());
                let prepared = tree.and_then(|tree| self.prepare(tree, lease.map(Arc::new), source));
                Opened { file: Some(file), prepared }
            }
        })
    }

    fn open_file(
        &self,
        path: &str,
        room: &FileRoom<'_>,
        not_opened: &mut Option<NotOpened>,
    ) -> Result<(Arc<File>, Option<Lease>)> {
        // All of it is due until it is there.
        let mut due = None;
        let mut is_too_large = false;
        let mut extent = |store: &dyn Store, size: u64| {
            let name = store.name();
            let claim = match room {
                FileRoom::Waiting(_) => Claim::Nothing,
                FileRoom::Ahead(_, _, claim) => claim.take(),
            };
            if let Some(tail) = self.tail_of(name, size) {
                return Ok(Extent::Ends { tail, reads: self.reads_of(name, size) });
            }
            let leased = match room {
                FileRoom::Waiting(budget) => budget.lease_file(size),
                FileRoom::Ahead(ahead, index, _) => match claim {
                    Claim::Kept(mut kept) if kept.bytes() >= size => Ok(kept.split(size)),
                    claim => {
                        let leased = ahead.lease_file(*index, size);
                        drop(claim);
                        leased.ok_or(Refusal::TooLarge)
                    }
                },
            };
            if let (Ok(_), FileRoom::Ahead(ahead, index, _)) = (&leased, room) {
                due = Some(ahead.wait_until_due(*index, size));
            }
            *not_opened = Some(match (leased, room) {
                (Ok(lease), _) => return Ok(Extent::Whole(Some(lease))),
                // Beside a chunk of many entries there may be room for parts of the file.
                (Err(Refusal::TooLarge), FileRoom::Waiting(_)) => {
                    is_too_large = true;
                    return Ok(Extent::Ends { tail: TAIL_BYTES, reads: self.reads_of(name, size) });
                }
                (Err(Refusal::TooLarge), FileRoom::Ahead(..)) => NotOpened::NoRoom,
                (Err(Refusal::Closed), _) => NotOpened::Closed,
            });
            Err(ReadError::new(ReadErrorKind::Refused, path, "a file was not opened"))
        };
        let opened = File::open_as(path, &self.options.access, &mut extent);
        drop(due);
        if let (Ok((file, _)), true, WholeFiles::Always) = (&opened, is_too_large, self.strategy.whole_files) {
            file.remarks().add(NOT_PREFETCHED.to_owned());
        }
        opened
    }

    /// How much is read of the end of a file of this size at this storage element; None if it is better read whole.
    fn tail_of(&self, store_name: &str, size: u64) -> Option<u64> {
        match self.strategy.whole_files {
            WholeFiles::Never => Some(TAIL_BYTES),
            WholeFiles::Always => None,
            WholeFiles::Small if size > self.shares.whole_file => Some(TAIL_BYTES),
            WholeFiles::Small => match self.options.selection {
                Selection::All => None,
                Selection::Named(_) => self.ends.tail_of(store_name.contains("://"), link_to(store_name), size),
            },
        }
    }

    /// How many reads of a file will be due at a time, as far as its size tells.
    fn reads_of(&self, store_name: &str, size: u64) -> usize {
        let access = &self.options.access;
        let far = link_to(store_name).filter(|link| link.round_trip >= limits::FAR_ROUND_TRIP_MIN);
        if !self.strategy.prefetches_chunks() || size <= limits::WHOLE_FILE_BYTES || far.is_none() {
            return 0;
        }
        let choice = Choice::of(access, far, 0);
        let bytes = choice.bytes_in_flight.min(self.shares.ahead).min(size);
        // With the room in their buffers not more than that is asked for at a time.
        let leased = bytes.saturating_add(bytes / 4);
        choice.requests_in_flight.min(leased.div_ceil(MAX_JOINED_BYTES) as usize)
    }

    fn prepare(&self, tree: Arc<Tree>, file_lease: Option<Arc<Lease>>, source: &Source) -> Result<Prepared> {
        let columns = select(&tree, &self.options)?;
        if columns.is_empty() {
            tree.check_entries_count()?;
        }
        if matches!(self.options.selection, Selection::Named(_)) {
            self.ends.learn(&tree, &columns);
        }
        let file_bytes = file_lease.as_ref().map_or(0, |lease| lease.bytes());
        let plan = MemoryPlan::new(&tree, &columns, file_bytes, self.memory_limit)?;
        let stop = source.entry_stop.unwrap_or(u64::MAX).min(tree.entries_count());
        let entries = source.entry_start.min(stop)..stop;
        Ok(Prepared { tree, file_lease, columns, plan, entries, asked: Vec::new() })
    }
}

fn select(tree: &Tree, options: &Options) -> Result<Vec<usize>> {
    let names = match &options.selection {
        Selection::All => return Ok(tree.readable().collect()),
        Selection::Named(names) => names,
    };
    let mut columns = Vec::with_capacity(names.len());
    for name in names {
        match tree.find(name).and_then(|index| tree.check_readable(index).map(|()| index)) {
            Ok(index) => columns.push(index),
            // Whoever wants it there is told then.
            Err(error) if options.optional.contains(name) && is_absence(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(columns)
}

fn is_absence(error: &ReadError) -> bool {
    matches!(error.kind, ReadErrorKind::NoSuchKey | ReadErrorKind::Unsupported)
}

/// What is remarked of a file that is not read as was asked for.
const NOT_PREFETCHED: &str =
    "read as planned, not prefetched: whole files are larger than the memory that reading may take, see --memory-limit";

/// A source that is being opened ahead.
pub(crate) struct Slot {
    /// None until it is done, and what became of it, which the fetcher takes.
    outcome: Mutex<Option<Option<Opened>>>,
    done: Condvar,
    /// Whether there was no room for it before.
    is_second: bool,
}

impl Slot {
    /// A slot, and what fills it. Where that is dropped instead, the fetcher opens the source itself.
    pub(crate) fn new(is_second: bool) -> (Arc<Self>, Filler) {
        let slot = Arc::new(Self { outcome: Mutex::default(), done: Condvar::new(), is_second });
        (Arc::clone(&slot), Filler(slot))
    }

    /// Whether there was no room for the first time: a file that is larger than others is not opened again and again.
    pub(crate) fn is_refused(&self) -> bool {
        !self.is_second && matches!(*self.outcome.lock().unwrap_or_else(PoisonError::into_inner), Some(None))
    }

    /// Waits so long, and takes what was opened: None in it if there was no room.
    pub(crate) fn take_within(&self, time: Duration) -> Option<Option<Opened>> {
        let outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.done.wait_timeout_while(outcome, time, |outcome| outcome.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.take()
    }
}

/// The duty to fill a slot.
pub(crate) struct Filler(Arc<Slot>);

impl Filler {
    pub(crate) fn fill(self, opened: Option<Opened>) {
        self.put(opened);
    }

    fn put(&self, opened: Option<Opened>) {
        let mut outcome = self.0.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        if outcome.is_none() {
            *outcome = Some(opened);
            self.0.done.notify_all();
        }
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        self.put(None);
    }
}
