//! A worker decodes one basket after another in a decoding thread, from stored bytes to values at their final position.

use std::sync::{Arc, PoisonError};

use branchline_format::basket::decode::{whole_numbers, Counts};
use branchline_format::column::Column;
use branchline_format::compress::Decompressor;
use branchline_format::ntuple::cluster::Scratch;
use branchline_slab::Buffer;
use branchline_trace::journal;
use branchline_trace::panics::guarded;

use crate::error::Result;
use crate::memory::scratch::{SharedScratch, SPARE};
use crate::read::decode::baskets::decode_basket;
use crate::read::decode::chunk::BasketOrder;
use crate::read::decode::clock::Clock;
use crate::read::decode::effort::Effort;
use crate::read::decode::pages::decode_cluster;
use crate::read::decode::task::{Counting, Target, Task};
use crate::read::decode::tools::Tools;
use crate::tree::content::Shape;

/// The private codecs and scratch memory of a thread.
pub(crate) struct Worker {
    decompressor: Decompressor,
    own: Scratch,
    /// Maximum size of the private buffer. Larger baskets are decompressed into buffers shared by all decoders.
    own_max: u64,
    shared: Arc<SharedScratch>,
    /// The clock, which keeps running from basket to basket because reading it takes as long as decoding a small
    /// basket.
    clock: Clock,
}

impl Drop for Worker {
    fn drop(&mut self) {
        SPARE.give(std::mem::take(&mut self.own));
    }
}

impl Worker {
    /// Creates a worker for one of several decoding threads.
    pub(crate) fn new(own_max: u64, shared: &Arc<SharedScratch>) -> Self {
        Self {
            decompressor: Decompressor::new(),
            own: SPARE.take_largest(own_max).unwrap_or_default(),
            own_max,
            shared: Arc::clone(shared),
            clock: Clock::start(),
        }
    }

    /// Restarts the clock before a bundle of baskets.
    pub(crate) fn begin(&mut self) {
        self.clock = Clock::start();
    }

    /// Creates a worker for a few baskets in the calling thread.
    pub(crate) fn alone() -> Self {
        Self::new(u64::MAX, &Arc::default())
    }

    /// Decodes a basket, calls `spent` with the times for decompressing and for decoding, and then reports to the
    /// chunk.
    pub(crate) fn run(&mut self, task: Task, spent: impl FnOnce(u64, u64)) {
        self.run_by(Self::try_run, task, spent);
    }

    fn run_by(
        &mut self,
        decode: impl FnOnce(&mut Self, &mut Task) -> Result<Effort>,
        mut task: Task,
        spent: impl FnOnce(u64, u64),
    ) {
        let order = BasketOrder { column: task.column, basket: task.basket };
        if !task.chunk.failed_before(order) {
            let tried = guarded(|| decode(self, &mut task)).unwrap_or_else(|panic| {
                (self.decompressor, self.own) = (Decompressor::new(), Scratch::default());
                Err(task.internal_error(&panic))
            });
            match tried {
                Ok(effort) => {
                    spent(effort.decompress_ns, effort.decode_ns);
                    if journal::is_on() {
                        trace_used(&task, &effort);
                    }
                    task.chunk.costs[task.column].add(&effort);
                }
                Err(error) => task.chunk.put_error(BasketOrder { basket: task.basket, ..order }, error),
            }
        }
        let Task { target, source, reporter, at_work, .. } = task;
        drop((target, source)); // release the basket's parts of the buffers before the chunk may close the buffers
        reporter.done();
        drop(at_work);
    }

    fn try_run(&mut self, task: &mut Task) -> Result<Effort> {
        let (mut counts, mut counted) = (None, None);
        let counting = match &task.target {
            Target::Piece { counting: Some(counting), .. } => Some(Arc::clone(counting)),
            _ => None,
        };
        if let Some(counting) = &counting {
            let (known, effort) = self.counts_of(counting).map_err(|error| error.in_object(task.object()))?;
            (counts, counted) = (Some(known), effort);
        }
        let (decompressor, clock) = (&mut self.decompressor, &mut self.clock);
        let mut effort = if task.scratch.sum() <= self.own_max {
            decode_task(task, counts, Tools { decompressor, scratch: &mut self.own, clock })
        } else {
            let mut scratch = self.shared.take(task.scratch.kept, task.scratch.passing);
            clock.lap_ns(); // do not count the time spent waiting for other decoders in this task
            decode_task(task, counts, Tools { decompressor, scratch: &mut scratch, clock })
        }?;
        if let Some(counted) = counted {
            effort.include(&counted);
        }
        Ok(effort)
    }

    /// Returns the element counts of the first stage. If this call decoded them, also returns the cost of decoding.
    fn counts_of<'a>(&mut self, counting: &'a Counting) -> Result<(&'a Counts, Option<Effort>)> {
        let mut effort = None;
        let counts = counting.counts.get_or_init(|| {
            let tasks = std::mem::take(&mut *counting.tasks.lock().unwrap_or_else(PoisonError::into_inner));
            for task in tasks {
                self.run(task, |_, _| ());
            }
            effort = counting.chunk.costs.first().map(Effort::of_column);
            let column = counting.chunk.take()?.into_iter().next();
            let no_counts = || counting.chunk.tree.contradiction("the branch with its element counts holds no counts");
            column.and_then(counts_in).ok_or_else(no_counts)
        });
        counts.as_ref().map(|counts| (counts, effort)).map_err(Clone::clone)
    }
}

fn counts_in(column: Column<Buffer, Buffer>) -> Option<Counts> {
    match column {
        Column::Flat { dtype, values } => whole_numbers(dtype, values.bytes()).map(Counts::Entries),
        Column::List { offsets, content } => match *content {
            Column::Flat { dtype, values } => whole_numbers("i8", offsets.bytes())
                .zip(whole_numbers(dtype, values.bytes()))
                .map(|(offsets, counts)| Counts::Elements { offsets, counts }),
            _ => None,
        },
        _ => None,
    }
}

/// Records in the trace that a basket was used.
fn trace_used(task: &Task, effort: &Effort) {
    let (tree, index) = (&task.chunk.tree, task.chunk.columns[task.column]);
    journal::used(&journal::Used {
        file: tree.home(index).path(),
        tree: tree.path(),
        branch: journal::UsedBranch { branches: tree.traced_branches(), index },
        basket: task.basket,
        entries: task.basket_start..task.basket_start + task.entries_count,
        place: task.place.map(|range| journal::UsedRange { offset: range.offset, size_bytes: range.length }),
        decompress_ns: effort.decompress_ns,
        decode_ns: effort.decode_ns,
    });
}

fn decode_task(task: &mut Task, counts: Option<&Counts>, tools: Tools<'_>) -> Result<Effort> {
    let tree = Arc::clone(&task.chunk.tree);
    let decoded = match tree.shape(task.chunk.columns[task.column])? {
        Shape::Baskets(layout) => decode_basket(task, layout, counts, tools),
        Shape::Clusters(_) => decode_cluster(task, tools),
    };
    decoded.map_err(|error| task.format_error(error))
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, OnceLock};

    use super::*;
    use crate::error::{ReadError, ReadErrorKind};
    use crate::read::read_now::read_again;
    use crate::read::samples::prepared;
    use branchline_slab::{OpenSlab, Pool};

    /// Decodes a chunk with `decode`, which must fail, and returns the error.
    fn error_of(decode: impl Fn(&mut Worker, &mut Task) -> Result<Effort>) -> ReadError {
        let (chunk, tasks) = prepared("energy");
        let mut worker = Worker::alone();
        for task in tasks {
            worker.run_by(&decode, task, |_, _| ());
        }
        assert!(read_again(&chunk, &Pool::new(0)).is_none(), "the bytes are not in doubt");
        chunk.error().unwrap()
    }

    fn assert_is_reported_as_ours(error: &ReadError, what: &str) {
        assert_eq!(error.kind, ReadErrorKind::Internal, "{error}");
        assert!(error.message.starts_with("internal error in Branchline"), "{error}");
        for part in ["tree events, branch energy: basket 0", "entries 0 to ", what] {
            assert!(error.message.contains(part), "{part} is missing: {error}");
        }
        assert!(!error.retry_may_help);
        let hint = error.hint.as_deref().unwrap();
        assert!(hint.contains("please report it") && hint.contains(env!("CARGO_PKG_VERSION")), "{hint}");
    }

    #[test]
    fn a_decoder_that_panics_is_a_fault_of_ours_and_not_of_the_file() {
        let error = error_of(|_, task| panic!("basket {} has no codec", task.basket));
        assert_is_reported_as_ours(&error, "has no codec");
        assert!(error.message.contains("worker.rs:"), "{error}");
    }

    #[test]
    fn a_basket_with_a_target_of_another_layout_is_a_fault_of_ours() {
        let error = error_of(|worker, task| {
            let part = || OpenSlab::new(0, &Pool::new(0)).share().1.cut(0).unwrap();
            task.target = Target::Run { first_element: 0, offsets: part(), values: part() };
            worker.try_run(task)
        });
        assert_is_reported_as_ours(&error, "in place");
    }

    #[test]
    fn what_fails_in_the_counting_branch_keeps_its_kind() {
        for kind in [ReadErrorKind::Internal, ReadErrorKind::Storage, ReadErrorKind::BadFile] {
            let (chunk, tasks) = prepared("n_hits");
            let counting = Counting { chunk, tasks: Mutex::new(tasks), counts: OnceLock::new() };
            counting.chunk.put_error(BasketOrder::default(), ReadError::new(kind, "file", "it failed"));
            let error = Worker::alone().counts_of(&counting).err().unwrap();
            assert_eq!((error.kind, error.message.as_str()), (kind, "it failed"));
        }
    }
}
