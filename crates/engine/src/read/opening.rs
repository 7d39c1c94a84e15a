//! Opens the files and trees of sources, in the fetcher's thread or in a prefetch thread, until the trees are ready to
//! be read.

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

/// A source whose tree is open and ready to be read.
pub(crate) struct Prepared {
    pub(crate) tree: Arc<Tree>,
    /// The memory of a file that was read whole. It is kept until the file's last chunk has been consumed.
    pub(crate) file_lease: Option<Arc<Lease>>,
    pub(crate) columns: Vec<usize>,
    pub(crate) plan: MemoryPlan,
    pub(crate) entries: Range<u64>,
    /// The started prefetches of the first chunk.
    pub(crate) prefetches: Vec<Arc<PendingRange>>,
}

/// The result of opening a source: the file, if it could be opened, and the tree.
pub(crate) struct Opened {
    pub(crate) file: Option<Arc<File>>,
    pub(crate) prepared: Result<Prepared>,
}

/// The source of memory for a file that is read whole.
pub(crate) enum FileRoom<'a> {
    /// The budget of the stream. The fetcher waits until memory is free.
    Stream(&'a Arc<Budget>),
    /// The budget for prefetching. Prefetched files lease memory in the order in which they will be read.
    Prefetched { prefetcher: &'a Arc<Prefetcher>, index: usize, claim: Cell<Claim> },
}

/// The claim of a prefetched file on memory before the size of the file is known.
#[derive(Default)]
pub(crate) enum Claim {
    #[default]
    Nothing,
    /// A turn in the opening order.
    Turn(#[expect(dead_code, reason = "ends when it is dropped")] Turn),
    /// Memory leased for a retry.
    Leased(Lease),
}

/// Reasons for not opening a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotOpened {
    /// The stream was closed.
    Closed,
    /// Prefetching the source would exceed the memory limit.
    NoRoom,
}

/// Settings and state for opening sources.
#[derive(Clone)]
pub(crate) struct Opening {
    pub(crate) options: Arc<Options>,
    pub(crate) strategy: Strategy,
    pub(crate) memory_limit: MemoryLimit,
    pub(crate) shares: Shares,
    pub(crate) tail_sizes: Arc<TailSizes>,
    /// The column indices in the previous file: usually the next file has the same branches at the same indices.
    pub(crate) columns_before: Arc<Mutex<Vec<usize>>>,
}

impl Opening {
    /// Opens the tree of a source.
    pub(crate) fn open(&self, source: &Source, room: &FileRoom<'_>) -> std::result::Result<Opened, NotOpened> {
        let waits = self.options.access.waits;
        watched(Doing::Opening { path: source.path().to_owned(), waits }, || self.open_source(source, room))
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
        // The bytes count as in flight until the file has been read.
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
                // If the whole file does not fit, there may still be enough memory for parts of it.
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

    /// Returns the number of bytes to read from the end of a file of this size on this storage element. Returns None to
    /// read the whole file.
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

    /// The link to a storage element, with the throttle of this stream.
    pub(crate) fn link_to(&self, store_name: &str) -> Option<Link> {
        link_to(store_name, self.options.access.throttle.as_deref())
    }

    /// Estimates from a file's size how many reads of the file will be in flight at a time.
    fn reads_expected(&self, store_name: &str, size: u64) -> usize {
        let access = &self.options.access;
        let far = self.link_to(store_name).filter(|link| link.round_trip >= limits::FAR_ROUND_TRIP_MIN);
        if !self.strategy.prefetches_chunks() || size <= limits::WHOLE_FILE_BYTES || far.is_none() {
            return 0;
        }
        let choice = Choice::of(access, far, 0);
        let bytes = choice.bytes_in_flight.min(self.shares.prefetched).min(size);
        // Each buffer is slightly larger than the data read into it.
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

/// Returns the selected columns. Names are only looked up if the branches at the indices `before` do not have these
/// names.
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
            // The branch is optional: a wagon that uses the branch gets an error, all other wagons run.
            Err(error) if options.optional.contains(name) && is_absence(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(columns)
}

fn is_absence(error: &ReadError) -> bool {
    matches!(error.kind, ReadErrorKind::NoSuchKey | ReadErrorKind::Unsupported)
}

/// The note to the user about a file that is too large for prefetching.
const NOT_PREFETCHED: &str =
    "not prefetched, but read in access mode planned: the file exceeds the memory for reading; raise --memory-limit";

/// A source that a prefetch thread opens.
pub(crate) struct Slot {
    /// The outcome of opening the source. None until then, and after the fetcher has taken the outcome.
    outcome: Mutex<Option<Outcome>>,
    done: Condvar,
    /// Whether this is the second attempt, after the first one failed for lack of memory.
    is_retry: bool,
}

/// The outcome of opening a source in a prefetch thread.
pub(crate) enum Outcome {
    Opened(Opened),
    /// The source was not opened in advance, because of a lack of memory or because the stream was closed. The fetcher
    /// opens the source if it is still needed.
    NotOpened,
}

impl Slot {
    /// Creates a slot and its filler. If the filler is dropped unused, the fetcher opens the source itself.
    pub(crate) fn new(is_retry: bool) -> (Arc<Self>, Filler) {
        let slot = Arc::new(Self { outcome: Mutex::default(), done: Condvar::new(), is_retry });
        (Arc::clone(&slot), Filler(slot))
    }

    /// Whether the first attempt failed for lack of memory. There is only one retry, because the file may be larger
    /// than the other files.
    pub(crate) fn is_refused(&self) -> bool {
        let outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        !self.is_retry && matches!(*outcome, Some(Outcome::NotOpened))
    }

    /// Takes the outcome, after waiting for it at most this long. Returns None if there is no outcome yet.
    pub(crate) fn take_within(&self, time: Duration) -> Option<Outcome> {
        let outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.done.wait_timeout_while(outcome, time, |outcome| outcome.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.take()
    }
}

/// Fills a slot with an outcome. A filler that is dropped unused fills the slot with `NotOpened`.
pub(crate) struct Filler(Arc<Slot>);

impl Filler {
    /// Fills the slot with the result of `open`, which returns None if it did not open the source. A panic becomes an
    /// error of the source.
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
