//! The work of the decoding threads: one basket after the other, from stored bytes to values in their place.

use std::ops::Range;
use std::sync::Arc;

use branchline_format::basket::{decode_run_into, BasketRecord, Plain};
use branchline_format::compress::{Codec, Decompressor};
use branchline_format::decode::{decode, Counts};
use branchline_format::error::{ErrorKind, FormatError, Result as FormatResult};
use branchline_format::layout::Layout;
use branchline_format::ntuple::cluster::Scratch;
use branchline_trace::journal;
use branchline_trace::panics::guarded;

use crate::error::{ReadError, Result};
use crate::read::basket_source::{BasketSource, ScratchBytes};
use crate::read::budget::TaskAtWork;
use crate::read::chunk::{Chunk, Effort, Reporter, Target};
use crate::read::clock::Clock;
use crate::read::page_decode::decode_cluster;
use crate::read::scratch::SharedScratch;
use crate::tree::Shape;

/// One basket to decode. Its parts of the chunk's buffers are dropped before it reports to the chunk.
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
    /// Those of them that belong to the chunk.
    pub(crate) entries: Range<usize>,
    /// Where it lies in its file, where a trace wants to know it.
    pub(crate) place: Option<(u64, u64)>,
    /// What decompressing it takes.
    pub(crate) scratch: ScratchBytes,
    pub(crate) reporter: Reporter,
    /// Counted among those that will give memory back.
    pub(crate) at_work: Option<TaskAtWork>,
}

impl Task {
    /// It is not to be run after all; its chunk is not to fail for that.
    pub(crate) fn cancel(self) {
        self.reporter.done();
    }

    /// The basket, as errors name it.
    fn object(&self) -> String {
        let (tree, branch) = (&self.chunk.tree, self.chunk.columns[self.column]);
        let basket = tree.basket_name(branch, self.basket);
        format!("tree {}, branch {}: {basket}", tree.path(), tree.branch_path(branch))
    }

    fn format_error(&self, error: FormatError) -> ReadError {
        let path = self.chunk.tree.file().path();
        match error.kind {
            ErrorKind::Internal => self.internal_error(&error),
            _ => ReadError::from_format(path, &error.in_object(self.object())),
        }
    }

    /// A fault of ours while this basket is decoded.
    fn internal_error(&self, what: &dyn std::fmt::Display) -> ReadError {
        let entries = self.basket_start..self.basket_start + self.entries_count;
        let message = format!("{}, entries {} to {}: {what}", self.object(), entries.start, entries.end);
        ReadError::internal(self.chunk.tree.file().path(), message)
    }
}

/// A thread's own codecs and scratch memory.
pub(crate) struct Worker {
    decompressor: Decompressor,
    own: Scratch,
    /// Larger baskets are decompressed to memory that all decoders share.
    own_max: u64,
    shared: Arc<SharedScratch>,
    /// It runs on from basket to basket: looking at a clock takes as long as decoding a small one.
    clock: Clock,
}

/// What a basket is decompressed with.
pub(crate) struct Tools<'a> {
    pub(crate) decompressor: &'a mut Decompressor,
    pub(crate) scratch: &'a mut Scratch,
    /// What it shows when a basket comes is for that one.
    pub(crate) clock: &'a mut Clock,
}

impl Worker {
    /// One of several decoders.
    pub(crate) fn new(own_max: u64, shared: &Arc<SharedScratch>) -> Self {
        Self {
            decompressor: Decompressor::new(),
            own: Scratch::default(),
            own_max,
            shared: Arc::clone(shared),
            clock: Clock::start(),
        }
    }

    /// Some baskets come: what was before is not for them.
    pub(crate) fn begin(&mut self) {
        self.clock = Clock::start();
    }

    /// The only one, for a few baskets.
    pub(crate) fn alone() -> Self {
        Self::new(u64::MAX, &Arc::default())
    }

    /// Decodes a basket and reports to its chunk. The times of decompressing and decoding are told to `spent` before
    /// the chunk may be finished by it.
    pub(crate) fn run(&mut self, task: Task, spent: impl FnOnce(u64, u64)) {
        self.run_by(Self::try_run, task, spent);
    }

    fn run_by(
        &mut self,
        decode: impl FnOnce(&mut Self, &mut Task) -> Result<Effort>,
        mut task: Task,
        spent: impl FnOnce(u64, u64),
    ) {
        let order = (task.column, task.basket);
        if !task.chunk.failed_before(order) {
            let tried = guarded(|| decode(self, &mut task)).unwrap_or_else(|panic| {
                (self.decompressor, self.own) = (Decompressor::new(), Scratch::default());
                Err(task.internal_error(&panic))
            });
            match tried {
                Ok(effort) => {
                    spent(effort.decompress_ns, effort.decode_ns);
                    if journal::is_on() {
                        tell_used(&task, &effort);
                    }
                    task.chunk.costs[task.column].add(&effort);
                }
                Err(error) => task.chunk.put_error(order, error),
            }
        }
        let Task { target, source, reporter, at_work, .. } = task;
        drop((target, source)); // its parts of the buffers go before the chunk may close them
        reporter.done();
        drop(at_work);
    }

    fn try_run(&mut self, task: &mut Task) -> Result<Effort> {
        let mut counted = None;
        let mut counts = None;
        let counted_by = match &task.target {
            Target::Piece { counted_by: Some(counted_by), .. } => Some(Arc::clone(counted_by)),
            _ => None,
        };
        if let Some(counted_by) = &counted_by {
            let (known, effort) = counted_by.counts(self).map_err(|error| error.in_object(task.object()))?;
            (counts, counted) = (Some(known), effort);
        }
        let (decompressor, clock) = (&mut self.decompressor, &mut self.clock);
        let mut effort = if task.scratch.sum() <= self.own_max {
            decode_task(task, counts, Tools { decompressor, scratch: &mut self.own, clock })
        } else {
            let mut scratch = self.shared.take(task.scratch.kept, task.scratch.passing);
            clock.lap_ns(); // others were waited for
            decode_task(task, counts, Tools { decompressor, scratch: &mut scratch, clock })
        }?;
        if let Some(counted) = counted {
            effort.include(&counted);
        }
        Ok(effort)
    }
}

/// Tells the trace that a basket was used.
fn tell_used(task: &Task, effort: &Effort) {
    let (tree, index) = (&task.chunk.tree, task.chunk.columns[task.column]);
    journal::used(&journal::Used {
        file: tree.home(index).path(),
        tree: tree.path(),
        branch: (tree.told_branches(), index),
        basket: task.basket,
        entries: task.basket_start..task.basket_start + task.entries_count,
        place: task.place,
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

fn decode_basket(
    task: &mut Task,
    layout: &Layout,
    counts: Option<&Counts>,
    mut tools: Tools<'_>,
) -> FormatResult<Effort> {
    let entries = task.entries.clone();
    let chunk = &task.chunk;
    let (column, target) = (task.column, &mut task.target);
    let ((), effort) = tools.with_plain(&task.source, task.entries_count, |plain| {
        match target {
            Target::Fixed { values } => {
                // SAFETY: the chunk keeps the buffer until its last task is done, and this one is not.
                decode_fixed(layout, plain, entries, unsafe { values.bytes_mut() })?;
            }
            Target::Run { first_element, offsets, values } => {
                // SAFETY: as above.
                let (offsets, values) = unsafe { (offsets.bytes_mut(), values.bytes_mut()) };
                decode_run(layout, plain, *first_element, offsets, values)?;
            }
            Target::Piece { index, .. } => {
                chunk.put_piece(column, *index, decode(layout, plain, entries, counts)?);
            }
        }
        Ok(())
    })?;
    Ok(effort)
}

impl Tools<'_> {
    fn with_plain<T>(
        &mut self,
        source: &BasketSource,
        entries_count: u64,
        work: impl FnOnce(&Plain<'_>) -> FormatResult<T>,
    ) -> FormatResult<(T, Effort)> {
        let mut effort = Effort {
            baskets: 1,
            compressed: source.stored().len(),
            plain: 0,
            codec: Codec::None,
            decompress_ns: 0,
            decode_ns: 0,
        };
        let result = match source {
            BasketSource::Embedded(basket) => {
                effort.plain = basket.data.len();
                work(&Plain::embedded(basket))?
            }
            BasketSource::Pages(_) => return Err(wrong_target()),
            BasketSource::Record(_) => {
                let record = BasketRecord::parse(source.stored(), entries_count)?;
                let bytes = record.decompress(self.decompressor, &mut self.scratch.plain)?;
                (effort.plain, effort.codec, effort.decompress_ns) = (bytes.len(), record.codec(), self.clock.lap_ns());
                work(&record.plain(bytes))?
            }
            BasketSource::Shared(basket) => {
                let record = BasketRecord::parse(&basket.record, entries_count)?;
                let mut is_first = false;
                let bytes = basket.plain.get_or_init(|| {
                    is_first = true;
                    let mut room = Vec::new();
                    record.decompress(self.decompressor, &mut room)?;
                    Ok(room)
                });
                let bytes = bytes.as_ref().map_err(Clone::clone)?;
                (effort.plain, effort.codec, effort.decompress_ns) = (bytes.len(), record.codec(), self.clock.lap_ns());
                if !is_first {
                    (effort.baskets, effort.compressed, effort.plain) = (0, 0, 0);
                }
                work(&record.plain(bytes))?
            }
        };
        effort.decode_ns = self.clock.lap_ns();
        Ok((result, effort))
    }
}

fn wrong_target() -> FormatError {
    FormatError::internal("a layout that is not made in place is decoded in place")
}

fn decode_fixed(layout: &Layout, plain: &Plain<'_>, entries: Range<usize>, values: &mut [u8]) -> FormatResult<()> {
    let Layout::Fixed { scalar, dimensions } = layout else { return Err(wrong_target()) };
    let entry_size = scalar.stored_size() * dimensions.iter().product::<usize>();
    let stored = plain.fixed_range(entry_size, entries)?;
    if stored.len() / scalar.stored_size() * scalar.size() != values.len() {
        return Err(FormatError::damaged(0, "the basket does not have the entries that its branch says"));
    }
    scalar.decode(stored, values);
    Ok(())
}

fn decode_run(
    layout: &Layout,
    plain: &Plain<'_>,
    first_element: i64,
    offsets: &mut [u8],
    values: &mut [u8],
) -> FormatResult<()> {
    let Layout::Run { scalar, dimensions, header, .. } = layout else { return Err(wrong_target()) };
    let offsets = bytemuck::try_cast_slice_mut(offsets).map_err(|_| wrong_target())?;
    decode_run_into(plain, *scalar, dimensions.iter().product(), *header, first_element, offsets, values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ReadErrorKind;
    use crate::read::read_now::read_anew;
    use crate::read::samples::prepared;
    use crate::read::slab::{OpenSlab, Pool};

    /// What the reader of a chunk learns whose baskets are decoded so.
    fn error_of(decode: impl Fn(&mut Worker, &mut Task) -> Result<Effort>) -> ReadError {
        let (chunk, tasks) = prepared("energy");
        let mut worker = Worker::alone();
        for task in tasks {
            worker.run_by(&decode, task, |_, _| ());
        }
        assert!(read_anew(&chunk, &Pool::new(0)).is_none(), "the bytes are not in doubt");
        chunk.error().unwrap()
    }

    fn assert_is_reported_as_ours(error: &ReadError, what: &str) {
        assert_eq!(error.kind, ReadErrorKind::Internal, "{error}");
        assert!(error.message.starts_with("a fault of Branchline"), "{error}");
        for part in ["tree events, branch energy: basket 0", "entries 0 to ", what] {
            assert!(error.message.contains(part), "{part} is missing: {error}");
        }
        assert!(!error.retry_may_help);
        let hint = error.hint.as_deref().unwrap();
        assert!(hint.contains("please report it") && hint.contains(env!("CARGO_PKG_VERSION")), "{hint}");
    }

    #[test]
    fn a_decoder_that_panics_is_a_fault_of_ours_and_not_of_the_file() {
        let error = error_of(|_, task| panic!("basket {} of nobody", task.basket));
        assert_is_reported_as_ours(&error, "of nobody");
        assert!(error.message.contains("worker.rs:"), "{error}");
    }

    #[test]
    fn a_basket_with_a_target_of_another_layout_is_a_fault_of_ours() {
        let error = error_of(|worker, task| {
            let part = || OpenSlab::new(0, &Pool::new(0)).parts().cut(0).unwrap();
            task.target = Target::Run { first_element: 0, offsets: part(), values: part() };
            worker.try_run(task)
        });
        assert_is_reported_as_ours(&error, "in place");
    }
}
