//! Slow merge: the entries of trees are written to new baskets, cluster by cluster, as if they had been filled anew.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use branchline_format::compress::Setting;
use branchline_format::layout::kind_of;
use branchline_format::tree::{Place, TTree};
use branchline_format::write::{BasketForm, BasketFrame, NewBasket};
use branchline_storage::ByteRange;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::file::File;
use crate::limits;
use crate::write::baskets::copy::digest_of;
use crate::write::baskets::counting::Counting;
use crate::write::baskets::source::{make, read, InputBranches, Job, Made, Slice, Source, Stored};
use crate::write::merge::Order;
use crate::write::output::Output;
use crate::write::pool::Pool;
use crate::write::selection::Selection;

/// Sizes of baskets are multiples of this (TTree::OptimizeBaskets).
const BASKET_STEP_BYTES: u64 = 512;

/// How large the clusters of a tree are to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterSize {
    /// So many entries.
    Entries(u64),
    /// About so many compressed bytes, as those of the first input are.
    Bytes(u64),
}

/// How a tree is written anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rewriting {
    /// Bytes of a basket at most, before compression; by itself as few baskets for each cluster as are sensible.
    pub basket_bytes: Option<u32>,
    /// The clusters; those of the first input if it is not given and they have one size.
    pub clusters: Option<ClusterSize>,
}

/// A tree of an input whose entries are to be written.
pub(crate) struct Rewritten<'a> {
    pub(crate) file: &'a File,
    pub(crate) tree: &'a TTree,
    /// TTree::fAutoFlush: entries in a cluster, if positive.
    pub(crate) auto_flush: i64,
    pub(crate) process_ids_before: u16,
    pub(crate) selection: Option<Arc<Selection>>,
}

/// What the baskets of a branch are like: whether they say where entries begin (TBranch::fEntryOffsetLen).
#[derive(Debug, Clone, Copy)]
pub(crate) struct BranchForm {
    pub(crate) stores_offsets: bool,
    pub(crate) setting: Setting,
}

/// A basket in the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LaidBasket {
    pub(crate) first_entry: u64,
    pub(crate) seek: u64,
    pub(crate) size: u64,
    /// Bytes before compression, key included.
    pub(crate) plain_size: u64,
    /// Of all its bytes but those that say where it lies.
    pub(crate) digest: u64,
}

/// What was laid down of entries that were handed over together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Flushed {
    pub(crate) entries_count: u64,
    /// Each with the number of its branch, in the order in which they lie.
    pub(crate) baskets: Vec<(usize, LaidBasket)>,
}

/// What came of a tree.
#[derive(Debug, Default)]
pub(crate) struct Laid {
    pub(crate) entries_count: u64,
    /// Of each branch.
    pub(crate) baskets: Vec<Vec<LaidBasket>>,
    pub(crate) cluster_entries: u64,
    /// Of each branch (TBranch::fBasketSize).
    pub(crate) basket_bytes: Vec<u64>,
    /// Whether its baskets say where entries begin.
    pub(crate) stores_offsets: Vec<bool>,
}

/// Writes the entries of trees with the same branches, one tree after the other.
pub(crate) struct Rewriter {
    rewriting: Rewriting,
    /// Of the baskets of a cluster.
    order: Order,
    /// Stored bytes that are read before they are handed over.
    at_once_bytes: u64,
    frames: Vec<BasketFrame>,
    forms: Vec<BranchForm>,
    pool: Pool<Job, Made>,
    /// Of each branch what was read and not handed over yet.
    pending: Vec<Vec<Slice>>,
    pending_entries: u64,
    pending_bytes: u64,
    cluster_entries: u64,
    flushes: VecDeque<Flush>,
    /// What is there already, of a merge that is gone on with.
    known: VecDeque<Flushed>,
    /// What was written and nobody was told of yet.
    flushed: Vec<Flushed>,
    laid: Laid,
}

/// Entries that were handed over together.
struct Flush {
    first_entry: u64,
    entries_count: u64,
    jobs_left: usize,
    made: Vec<(usize, Vec<NewBasket>)>,
}

/// Told how many bytes were written; may end it.
pub(crate) type Written<'a> = &'a mut dyn FnMut(u64) -> Result<()>;
/// Told what lies in the output now, so that it can be gone on with.
pub(crate) type Noted<'a> = &'a mut dyn FnMut(Vec<Flushed>, &Output) -> Result<()>;

impl Rewriter {
    /// For trees like this one, which lies in the directory at this place of the output.
    pub(crate) fn new(
        (rewriting, order, memory_bytes): (Rewriting, Order, u64),
        first: &Rewritten<'_>,
        forms: Vec<BranchForm>,
        (seek_directory, date): (u64, u32),
        known: VecDeque<Flushed>,
    ) -> Self {
        let branches = &first.tree.branches;
        let frame = |name: &String| BasketFrame {
            branch: name.clone().into_bytes(),
            tree: first.tree.name.clone().into_bytes(),
            date,
            seek_directory,
        };
        Self {
            rewriting,
            order,
            at_once_bytes: limits::REWRITTEN_AT_ONCE_BYTES.min(memory_bytes / limits::REWRITING_MEMORY_SHARE),
            frames: branches.iter().map(|branch| frame(&branch.name)).collect(),
            forms,
            pool: Pool::new(make),
            pending: branches.iter().map(|_| Vec::new()).collect(),
            pending_entries: 0,
            pending_bytes: 0,
            cluster_entries: 0,
            flushes: VecDeque::new(),
            known,
            flushed: Vec::new(),
            laid: Laid { baskets: vec![Vec::new(); branches.len()], ..Laid::default() },
        }
    }

    /// Writes the entries of a tree; the last of them only with those that come next, or at the end.
    pub(crate) fn add(
        &mut self,
        input: &Rewritten<'_>,
        output: &mut Output,
        written: Written<'_>,
        noted: Noted<'_>,
    ) -> Result<()> {
        let entries_count = input.tree.entries_count;
        if entries_count == 0 {
            return Ok(());
        }
        if self.cluster_entries == 0 {
            self.cluster_entries = self.choose_cluster(input);
        }
        let mut reader = Reader::new(input);
        let mut entry = 0;
        while entry < entries_count {
            let stop = self.step(input, entry);
            let kept = input.selection.as_ref().map_or(stop - entry, |selection| selection.count(entry..stop));
            if kept > 0 {
                self.take(&mut reader, entry..stop)?;
                self.pending_entries += kept;
            }
            entry = stop;
            let in_cluster = (self.laid.entries_count + self.pending_entries) % self.cluster_entries;
            if in_cluster == 0 || self.pending_bytes > self.at_once_bytes {
                self.flush(output, written)?;
                if !self.flushed.is_empty() {
                    noted(std::mem::take(&mut self.flushed), output)?;
                }
            }
        }
        Ok(())
    }

    /// Reads entries of an input, unless they are there already.
    fn take(&mut self, reader: &mut Reader<'_>, entries: Range<u64>) -> Result<()> {
        if !self.known.is_empty() {
            self.pending_bytes += reader.stored_bytes(&entries);
            return Ok(());
        }
        for slice in reader.slices(entries)? {
            self.pending_bytes += slice.source.stored_bytes();
            self.pending[slice.source.branch].push(slice);
        }
        Ok(())
    }

    /// Writes what was handed over. What comes to lie behind it does not depend on when it was made.
    pub(crate) fn settle(&mut self, output: &mut Output, written: Written<'_>) -> Result<()> {
        while self.write_next(output, written)? {}
        Ok(())
    }

    /// Writes what is left.
    pub(crate) fn finish(mut self, output: &mut Output, written: Written<'_>) -> Result<Laid> {
        self.flush(output, written)?;
        self.settle(output, written)?;
        self.laid.cluster_entries = self.cluster_entries;
        self.laid.stores_offsets = self.forms.iter().map(|form| form.stores_offsets).collect();
        let largest = |baskets: &Vec<LaidBasket>| baskets.iter().map(|basket| basket.plain_size).max().unwrap_or(0);
        self.laid.basket_bytes = match self.rewriting.basket_bytes {
            Some(bytes) => vec![bytes.into(); self.laid.baskets.len()],
            None => {
                let rounded = |baskets| u64::next_multiple_of(largest(baskets).max(1), BASKET_STEP_BYTES);
                self.laid.baskets.iter().map(rounded).collect()
            }
        };
        Ok(self.laid)
    }

    /// Entries in a cluster.
    fn choose_cluster(&self, input: &Rewritten<'_>) -> u64 {
        let bytes_max = match self.rewriting.clusters {
            Some(ClusterSize::Entries(entries)) => return entries.max(1),
            Some(ClusterSize::Bytes(bytes)) => bytes,
            None if input.auto_flush > 0 => return input.auto_flush as u64,
            None => limits::CLUSTER_BYTES,
        };
        let stored: u64 = input.tree.branches.iter().map(|branch| branch.compressed_bytes).sum();
        let entries = u128::from(input.tree.entries_count) * u128::from(bytes_max) / u128::from(stored.max(1));
        u64::try_from(entries).unwrap_or(u64::MAX).clamp(1, i64::MAX as u64)
    }

    /// Up to which entry of an input the next ones are read at a time: no further than the cluster reaches.
    fn step(&self, input: &Rewritten<'_>, entry: u64) -> u64 {
        let entries_count = input.tree.entries_count;
        let done = self.laid.entries_count + self.pending_entries;
        let wanted = self.cluster_entries - done % self.cluster_entries;
        let mut stop = entry.saturating_add(wanted).min(entries_count);
        if let Some(selection) = &input.selection {
            // As many as are needed for so many that are kept.
            let mut kept = selection.count(entry..stop);
            while kept < wanted && stop < entries_count {
                let next = stop.saturating_add(wanted - kept).min(entries_count);
                kept += selection.count(stop..next);
                stop = next;
            }
        }
        while stop - entry > 1 && stored_between(input.tree, entry..stop) > self.at_once_bytes {
            stop = entry + (stop - entry) / 2;
        }
        stop
    }

    /// Hands over what is pending.
    fn flush(&mut self, output: &mut Output, written: Written<'_>) -> Result<()> {
        if self.pending_entries == 0 {
            return Ok(());
        }
        if let Some(known) = self.known.pop_front() {
            return self.pass(known, output, written);
        }
        let (first_entry, entries_count) = (self.laid.entries_count, self.pending_entries);
        self.laid.entries_count += entries_count;
        (self.pending_entries, self.pending_bytes) = (0, 0);
        let mut jobs_left = 0;
        let bytes_max = self.rewriting.basket_bytes.map_or(limits::BASKET_BYTES, |bytes| bytes as usize);
        let mut jobs = Vec::new();
        for (branch, pending) in self.pending.iter_mut().enumerate().filter(|(_, pending)| !pending.is_empty()) {
            let BranchForm { stores_offsets, setting } = self.forms[branch];
            let form = BasketForm { stores_offsets, bytes_max, setting };
            jobs.push(Job { branch, frame: self.frames[branch].clone(), form, slices: std::mem::take(pending) });
            jobs_left += 1;
        }
        let made = Vec::with_capacity(jobs_left);
        self.flushes.push_back(Flush { first_entry, entries_count, jobs_left, made });
        for job in jobs {
            while self.pool.cost() > 2 * self.at_once_bytes {
                self.write_next(output, written)?;
            }
            let cost = job.slices.iter().map(|slice| slice.source.plain_bytes()).sum();
            self.pool.hand_over(job, cost);
        }
        Ok(())
    }

    /// Passes over what is there already.
    fn pass(&mut self, known: Flushed, output: &mut Output, written: Written<'_>) -> Result<()> {
        let mut end = output.end();
        for (branch, basket) in &known.baskets {
            let laid = self.laid.baskets.get_mut(*branch).filter(|_| basket.seek == end);
            laid.ok_or_else(|| not_these(output))?.push(*basket);
            end = end.saturating_add(basket.size);
        }
        if known.entries_count != self.pending_entries {
            return Err(not_these(output));
        }
        self.laid.entries_count += self.pending_entries;
        (self.pending_entries, self.pending_bytes) = (0, 0);
        let bytes = end - output.end();
        output.pass(bytes)?;
        written(bytes)
    }

    /// Takes what was made of the job that was handed over first, and writes the baskets with those that they belong
    /// to, by their first entries; false if there is nothing to wait for.
    fn write_next(&mut self, output: &mut Output, written: Written<'_>) -> Result<bool> {
        let Some(made) = self.pool.next() else { return Ok(false) };
        let path = || output.path().display().to_string();
        let (branch, baskets) = made.map_err(|panic| ReadError::panicked(&path(), &panic))?;
        let no_flush = || ReadError::internal(&path(), "a basket is made that belongs to no cluster");
        let flush = self.flushes.front_mut().ok_or_else(no_flush)?;
        flush.made.push((branch, baskets?));
        flush.jobs_left -= 1;
        if flush.jobs_left > 0 {
            return Ok(true);
        }
        let Some(Flush { first_entry, entries_count, made, .. }) = self.flushes.pop_front() else { return Ok(true) };
        let mut baskets = Vec::new();
        for (branch, of_branch) in made {
            let mut entry = first_entry;
            for basket in of_branch {
                let entries_count = basket.entries_count;
                baskets.push((entry, branch, basket));
                entry += entries_count;
            }
        }
        match self.order {
            Order::Entry => baskets.sort_by_key(|(entry, branch, _)| (*entry, *branch)),
            // As they become full.
            Order::Offset => baskets.sort_by_key(|(entry, branch, basket)| (entry + basket.entries_count, *branch)),
            Order::Branch => baskets.sort_by_key(|(entry, branch, _)| (*branch, *entry)),
        }
        let mut flushed = Flushed { entries_count, baskets: Vec::with_capacity(baskets.len()) };
        for (first_entry, branch, mut basket) in baskets {
            let seek = output.end();
            let laid = &mut self.laid.baskets[branch];
            basket.place(laid.len(), seek);
            output.write(&basket.record)?;
            let size = basket.record.len() as u64;
            let digest = digest_of(&basket.record);
            let basket = LaidBasket { first_entry, seek, size, plain_size: basket.plain_size, digest };
            laid.push(basket);
            flushed.baskets.push((branch, basket));
            written(size)?;
        }
        self.flushed.push(flushed);
        Ok(true)
    }
}

fn not_these(output: &Output) -> ReadError {
    let message = "what was left of it is not what these inputs make";
    ReadError::new(ReadErrorKind::Option, &output.path().display().to_string(), message)
        .with_hint("leave --resume out: the merge begins anew")
}

/// Bytes of the baskets with these entries, as far as they lie in the file.
fn stored_between(tree: &TTree, entries: Range<u64>) -> u64 {
    let of = |place: &Place| match place {
        Place::File { size, .. } => *size,
        Place::Embedded(_) => 0,
    };
    let baskets = tree.branches.iter().flat_map(|branch| &branch.baskets[overlapping(branch, &entries)]);
    baskets.map(|basket| of(&basket.place)).sum()
}

/// Which baskets of a branch have some of these entries.
fn overlapping(branch: &branchline_format::tree::TBranch, entries: &Range<u64>) -> Range<usize> {
    let first = branch.baskets.partition_point(|basket| basket.entry_stop <= entries.start);
    let behind = branch.baskets.partition_point(|basket| basket.entry_start < entries.end);
    first..behind.max(first)
}

/// Reads the baskets of an input.
struct Reader<'a> {
    input: &'a Rewritten<'a>,
    about: Arc<InputBranches>,
    counting: Counting<'a>,
    /// Of each branch the basket that was read last, which may reach further.
    last: Vec<Option<Arc<Source>>>,
}

impl<'a> Reader<'a> {
    fn new(input: &'a Rewritten<'a>) -> Self {
        let branches = &input.tree.branches;
        let about = InputBranches {
            file_path: input.file.path().to_string(),
            tree_name: input.tree.name.clone(),
            kinds: branches.iter().map(|branch| kind_of(branch, input.file.classes())).collect(),
            paths: branches.iter().map(|branch| branch.path.clone()).collect(),
            process_ids_before: input.process_ids_before,
            selection: input.selection.clone(),
        };
        let counting = Counting::new(input.file, input.tree);
        Self { input, about: Arc::new(about), counting, last: vec![None; branches.len()] }
    }

    /// What the baskets with these entries take in memory.
    fn stored_bytes(&self, entries: &Range<u64>) -> u64 {
        let mut bytes = 0;
        for branch in &self.input.tree.branches {
            for basket in &branch.baskets[overlapping(branch, entries)] {
                let in_it = basket.entry_start.max(entries.start)..basket.entry_stop.min(entries.end);
                if self.about.selection.as_ref().is_some_and(|selection| selection.count(in_it) == 0) {
                    continue;
                }
                bytes += match &basket.place {
                    Place::File { size, .. } => *size,
                    Place::Embedded(embedded) => embedded.data.len() as u64,
                };
            }
        }
        bytes
    }

    /// The baskets with these entries, in the order of branches and entries.
    fn slices(&mut self, entries: Range<u64>) -> Result<Vec<Slice>> {
        let mut slices = Vec::new();
        let mut missing = Vec::new();
        for (number, branch) in self.input.tree.branches.iter().enumerate() {
            for basket in overlapping(branch, &entries) {
                let about = &branch.baskets[basket];
                let in_it = about.entry_start.max(entries.start)..about.entry_stop.min(entries.end);
                if self.about.selection.as_ref().is_some_and(|selection| selection.count(in_it.clone()) == 0) {
                    continue;
                }
                let known = self.last[number].as_ref().filter(|source| source.basket == basket);
                match (known, &about.place) {
                    (Some(source), _) => slices.push((number, in_it, Some(Arc::clone(source)))),
                    (None, Place::Embedded(embedded)) => {
                        let stored = Stored::Embedded(Arc::clone(embedded));
                        slices.push((number, in_it, Some(self.source(number, basket, stored)?)));
                    }
                    (None, Place::File { seek, size }) => {
                        missing.push((slices.len(), number, basket, ByteRange::new(*seek, *size)));
                        slices.push((number, in_it, None));
                    }
                }
            }
        }
        let ranges: Vec<ByteRange> = missing.iter().map(|(.., range)| *range).collect();
        for ((slice, branch, basket, _), record) in missing.into_iter().zip(read(self.input.file, &ranges)?) {
            slices[slice].2 = Some(self.source(branch, basket, Stored::Record(record))?);
        }
        let mut done = Vec::with_capacity(slices.len());
        for (branch, entries, source) in slices {
            if let Some(source) = source {
                self.last[branch] = Some(Arc::clone(&source)).filter(|source| source.entries.end > entries.end);
                done.push(Slice { source, entries });
            }
        }
        Ok(done)
    }

    fn source(&mut self, branch: usize, basket: usize, stored: Stored) -> Result<Arc<Source>> {
        let about = &self.input.tree.branches[branch].baskets[basket];
        let entries = about.entry_start..about.entry_stop;
        let counts = match self.about.kinds.get(branch) {
            Some(kind) if !stored.says_bounds() => self.counting.counts_for(kind, entries.clone())?,
            _ => None,
        };
        let taken_apart = OnceLock::new();
        Ok(Arc::new(Source { stored, about: Arc::clone(&self.about), branch, basket, entries, counts, taken_apart }))
    }
}
