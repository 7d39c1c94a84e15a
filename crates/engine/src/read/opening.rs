//! From a source to a tree that is ready to be read, in the fetcher's thread or in a prefetch thread.

use std::cell::Cell;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use branchline_storage::limits::MAX_JOINED_BYTES;
use branchline_storage::{link_to, Choice, Link, Store};

use crate::error::{guarded, ReadError, ReadErrorKind, Result};
use crate::fetch::prefetch::{PendingRange, Prefetcher, Turn};
use crate::file::metadata_reader::FirstRead;
use crate::file::strategy::{Strategy, WholeFiles};
use crate::file::watch::{waiting_for_others, watched, Doing};
use crate::file::{File, OpenedFile};
use crate::limits::{self, TAIL_BYTES};
use crate::memory::budget::{Budget, Lease, Refusal};
use crate::read::plan::memory_plan::{MemoryLimit, MemoryPlan, Shares};
use crate::read::plan::tail_size::{FilePlace, TailSizes};
use crate::read::source::{Options, Selection, Source, SourceTree};
use crate::tree::Tree;

/// A source whose tree is open.
pub(crate) struct Prepared {
    pub(crate) tree: Arc<Tree>,
    /// Its file is in memory until its last chunk is used up.
    pub(crate) file_lease: Option<Arc<Lease>>,
    pub(crate) columns: Vec<usize>,
    pub(crate) plan: MemoryPlan,
    pub(crate) entries: Range<u64>,
    /// Prefetches of its first chunk.
    pub(crate) prefetches: Vec<Arc<PendingRange>>,
}

/// A source that was opened: its file, if that succeeded, and its tree.
pub(crate) struct Opened {
    pub(crate) file: Option<Arc<File>>,
    pub(crate) prepared: Result<Prepared>,
}

/// Where the memory comes from for a file that is read whole.
pub(crate) enum FileRoom<'a> {
    /// From the budget of the stream. The fetcher waits for it.
    Stream(&'a Arc<Budget>),
    /// From what may be prefetched. Such files are read in their order.
    Prefetched { prefetcher: &'a Arc<Prefetcher>, index: usize, claim: Cell<Claim> },
}

/// What a prefetched file holds before its size is known.
#[derive(Default)]
pub(crate) enum Claim {
    #[default]
    Nothing,
    /// Its turn among the others.
    Turn(#[expect(dead_code, reason = "ends when it is dropped")] Turn),
    /// Memory that was leased when there was none at the first try.
    Leased(Lease),
}

/// Why nothing was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotOpened {
    /// The stream was closed.
    Closed,
    /// There is no memory to prefetch it.
    NoRoom,
}

/// How sources are opened.
#[derive(Clone)]
pub(crate) struct Opening {
    pub(crate) options: Arc<Options>,
    pub(crate) strategy: Strategy,
    pub(crate) memory_limit: MemoryLimit,
    pub(crate) shares: Shares,
    pub(crate) tail_sizes: Arc<TailSizes>,
    /// The columns of the file that was opened before: most often the next one has its branches in the same places.
    pub(crate) columns_before: Arc<Mutex<Vec<usize>>>,
}

impl Opening {
    /// Opens the tree of a source.
    pub(crate) fn open(&self, source: &Source, room: &FileRoom<'_>) -> std::result::Result<Opened, NotOpened> {
        watched(Doing::Opening { path: source.path().to_owned() }, || self.open_source(source, room))
    }

    fn open_source(&self, source: &Source, room: &FileRoom<'_>) -> std::result::Result<Opened, NotOpened> {
        let (file, tree_path) = match &source.tree {
            SourceTree::Open(tree) => {
                let (file, tree) = (Some(Arc::clone(tree.file())), Arc::clone(tree));
                return Ok(Opened { file, prepared: self.prepare(tree, None, source) });
            }
            SourceTree::Path { file: path, tree } => {
                let mut not_opened = None;
                let opened = self.open_file(path, room, &mut not_opened);
                (not_opened.map_or(Ok(opened), Err)?, tree)
            }
        };
        Ok(match file {
            Err(error) => Opened { file: None, prepared: Err(error) },
            Ok(OpenedFile { file, lease }) => {
                let tree = file.tree(tree_path.as_deref());
                let prepared = tree.and_then(|tree| self.prepare(tree, lease.map(Arc::new), source));
                Opened { file: Some(file), prepared }
            }
        })
    }

    fn open_file(&self, path: &str, room: &FileRoom<'_>, not_opened: &mut Option<NotOpened>) -> Result<OpenedFile> {
        // Its bytes are in flight until it is read.
        let mut in_flight = None;
        let mut is_too_large = false;
        let mut choose = |store: &dyn Store, size: u64| {
            let name = store.name();
            let claim = match room {
                FileRoom::Stream(_) => Claim::Nothing,
                FileRoom::Prefetched { claim, .. } => claim.take(),
            };
            if let Some(tail) = self.tail_bytes(store, size) {
                return Ok(FirstRead::Ends { tail, reads_expected: self.reads_expected(name, size) });
            }
            let leased = waiting_for_others(|| match room {
                FileRoom::Stream(budget) => budget.lease_file(size),
                FileRoom::Prefetched { prefetcher, index, .. } => match claim {
                    Claim::Leased(mut leased) if leased.bytes() >= size => Ok(leased.split(size)),
                    claim => {
                        let leased = prefetcher.lease_file(*index, size);
                        drop(claim);
                        leased.ok_or(Refusal::TooLarge)
                    }
                },
            });
            if let (Ok(_), FileRoom::Prefetched { prefetcher, index, .. }) = (&leased, room) {
                in_flight = Some(waiting_for_others(|| prefetcher.wait_for_link(*index, size)));
            }
            *not_opened = Some(match (leased, room) {
                (Ok(lease), _) => return Ok(FirstRead::Whole(Some(lease))),
                // There may be memory for parts of the file.
                (Err(Refusal::TooLarge), FileRoom::Stream(_)) => {
                    is_too_large = true;
                    return Ok(FirstRead::Ends { tail: TAIL_BYTES, reads_expected: self.reads_expected(name, size) });
                }
                (Err(Refusal::TooLarge), FileRoom::Prefetched { .. }) => NotOpened::NoRoom,
                (Err(Refusal::Closed), _) => NotOpened::Closed,
            });
            Err(ReadError::new(ReadErrorKind::Refused, path, "a file was not opened"))
        };
        let opened = File::open_as(path, &self.options.access, &mut choose);
        drop(in_flight);
        if let (Ok(OpenedFile { file, .. }), true, WholeFiles::Always) =
            (&opened, is_too_large, self.strategy.whole_files)
        {
            file.remarks().add(NOT_PREFETCHED.to_owned());
        }
        opened
    }

    /// How much is read of the end of a file of this size at this storage element; None if it is read whole.
    fn tail_bytes(&self, store: &dyn Store, size: u64) -> Option<u64> {
        match self.strategy.whole_files {
            WholeFiles::Never => Some(TAIL_BYTES),
            WholeFiles::Always => None,
            WholeFiles::Small if size > self.shares.whole_file => Some(TAIL_BYTES),
            WholeFiles::Small => match self.options.selection {
                Selection::All => None,
                Selection::Named(_) => {
                    let place = FilePlace::of(store.name(), store.is_near());
                    self.tail_sizes.tail_bytes(place, self.link_to(store.name()), size)
                }
            },
        }
    }

    /// The link to a storage element, as this stream reads from it.
    pub(crate) fn link_to(&self, store_name: &str) -> Option<Link> {
        link_to(store_name, self.options.access.throttle.as_deref())
    }

    /// How many reads of a file will be in flight at a time, estimated from its size.
    fn reads_expected(&self, store_name: &str, size: u64) -> usize {
        let access = &self.options.access;
        let far = self.link_to(store_name).filter(|link| link.round_trip >= limits::FAR_ROUND_TRIP_MIN);
        if !self.strategy.prefetches_chunks() || size <= limits::WHOLE_FILE_BYTES || far.is_none() {
            return 0;
        }
        let choice = Choice::of(access, far, 0);
        let bytes = choice.bytes_in_flight.min(self.shares.prefetched).min(size);
        // Buffers are a little larger than what is read into them.
        let leased = bytes.saturating_add(bytes / 4);
        choice.requests_in_flight.min(leased.div_ceil(MAX_JOINED_BYTES) as usize)
    }

    fn prepare(&self, tree: Arc<Tree>, file_lease: Option<Arc<Lease>>, source: &Source) -> Result<Prepared> {
        let mut before = self.columns_before.lock().unwrap_or_else(PoisonError::into_inner);
        let columns = select(&tree, &self.options, &before)?;
        before.clone_from(&columns);
        drop(before);
        if columns.is_empty() {
            tree.check_entries_count()?;
        }
        if matches!(self.options.selection, Selection::Named(_)) {
            self.tail_sizes.learn(&tree, &columns);
        }
        let file_bytes = file_lease.as_ref().map_or(0, |lease| lease.bytes());
        let plan = MemoryPlan::new(&tree, &columns, file_bytes, self.memory_limit)?;
        let stop = source.entry_stop.unwrap_or(u64::MAX).min(tree.entries_count());
        let entries = source.entry_start.min(stop)..stop;
        Ok(Prepared { tree, file_lease, columns, plan, entries, prefetches: Vec::new() })
    }
}

/// The columns that are wanted. Names are looked up where they are not in the places that they had `before`.
fn select(tree: &Tree, options: &Options, before: &[usize]) -> Result<Vec<usize>> {
    let names = match &options.selection {
        Selection::All => return Ok(tree.readable().collect()),
        Selection::Named(names) => names,
    };
    let mut columns = Vec::with_capacity(names.len());
    for (place, name) in names.iter().enumerate() {
        let is_there = |index: &&usize| **index < tree.branches_count() && tree.branch_path(**index) == name;
        let found = before.get(place).filter(is_there).map_or_else(|| tree.find(name), |index| Ok(*index));
        match found.and_then(|index| tree.check_readable(index).map(|()| index)) {
            Ok(index) => columns.push(index),
            // A wagon that uses it gets the error then.
            Err(error) if options.optional.contains(name) && is_absence(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(columns)
}

fn is_absence(error: &ReadError) -> bool {
    matches!(error.kind, ReadErrorKind::NoSuchKey | ReadErrorKind::Unsupported)
}

/// The remark about a file that is too large to be prefetched.
const NOT_PREFETCHED: &str =
    "read as planned, not prefetched: whole files are larger than the memory that reading may take, see --memory-limit";

/// A source that a prefetch thread opens.
pub(crate) struct Slot {
    /// None until it is done. The fetcher takes it.
    outcome: Mutex<Option<Outcome>>,
    done: Condvar,
    /// Whether there was no room for it at the first try.
    is_retry: bool,
}

/// What became of a source that a prefetch thread was to open.
pub(crate) enum Outcome {
    Opened(Opened),
    /// There was no memory for it, or the stream was closed: the fetcher opens it.
    NotOpened,
}

impl Slot {
    /// A slot, and what fills it. If that is dropped instead, the fetcher opens the source itself.
    pub(crate) fn new(is_retry: bool) -> (Arc<Self>, Filler) {
        let slot = Arc::new(Self { outcome: Mutex::default(), done: Condvar::new(), is_retry });
        (Arc::clone(&slot), Filler(slot))
    }

    /// Whether there was no room at the first try: a file that is larger than others is not tried again and again.
    pub(crate) fn is_refused(&self) -> bool {
        let outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        !self.is_retry && matches!(*outcome, Some(Outcome::NotOpened))
    }

    /// Waits this long at most, and takes the outcome.
    pub(crate) fn take_within(&self, time: Duration) -> Option<Outcome> {
        let outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.done.wait_timeout_while(outcome, time, |outcome| outcome.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.take()
    }
}

/// Fills a slot: with an outcome, or when it is dropped with none.
pub(crate) struct Filler(Arc<Slot>);

impl Filler {
    /// Fills it with what `open` gives, None if it did not open the source. A panic is an error of the source.
    pub(crate) fn fill(self, path: &str, open: impl FnOnce() -> Option<Opened>) {
        let opened = guarded(path, || Ok(open()));
        self.put(match opened {
            Ok(Some(opened)) => Outcome::Opened(opened),
            Ok(None) => Outcome::NotOpened,
            Err(error) => Outcome::Opened(Opened { file: None, prepared: Err(error) }),
        });
    }

    fn put(&self, new: Outcome) {
        let mut outcome = self.0.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        if outcome.is_none() {
            *outcome = Some(new);
            self.0.done.notify_all();
        }
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        self.put(Outcome::NotOpened);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    fn outcome(open: impl FnOnce() -> Option<Opened>) -> Outcome {
        let (slot, filler) = Slot::new(false);
        filler.fill("file.root", open);
        slot.take_within(Duration::from_secs(60)).unwrap()
    }

    #[test]
    fn a_prefetch_thread_that_panics_fails_its_source() {
        let Outcome::Opened(opened) = outcome(|| panic!("no such tree kind")) else { panic!("nothing was opened") };
        let error = opened.prepared.err().unwrap();
        assert_eq!((error.kind, error.path.as_str()), (ReadErrorKind::Internal, "file.root"));
        assert!(error.message.contains("no such tree kind"), "{error}");
    }

    #[test]
    fn what_is_not_prefetched_is_left_to_the_fetcher() {
        assert!(matches!(outcome(|| None), Outcome::NotOpened));
        let (slot, filler) = Slot::new(false);
        drop(filler);
        assert!(slot.is_refused() && matches!(slot.take_within(Duration::ZERO), Some(Outcome::NotOpened)));
    }
}
