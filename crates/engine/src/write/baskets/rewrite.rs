//! The slow kind of merge: entries are rewritten into new baskets, cluster by cluster.

use std::collections::VecDeque;
use std::ops::Range;

use branchline_format::tree::TTree;
use branchline_format::write::{BasketForm, BasketFrame, NewBasket};

use crate::error::{ReadError, Result};
use crate::limits;
use crate::write::baskets::digest::digest_of;
use crate::write::baskets::forms::BranchForm;
use crate::write::baskets::slices::{stored_between, RewrittenTree, SliceReader};
use crate::write::baskets::source::{make, Job, MadeBaskets, Slice};
use crate::write::errors::other_leftovers;
use crate::write::output::Output;
use crate::write::parallel::pool::Pool;
use crate::write::placed::{Placed, PlacedBasket, PlacedCluster, Places};
use crate::write::progress::Progress;
use crate::write::request::{BasketLayout, ClusterSize, Order};

/// Basket sizes are rounded up to a multiple of this many bytes (TTree::OptimizeBaskets).
const BASKET_STEP_BYTES: u64 = 512;

/// All new baskets of a tree.
#[derive(Debug, Default)]
pub(crate) struct NewBaskets {
    pub(crate) entries_count: u64,
    pub(crate) places: Places,
    pub(crate) cluster_entries: u64,
    /// Basket size of each branch (TBranch::fBasketSize).
    pub(crate) basket_bytes: Vec<u64>,
    /// For each branch, whether its baskets store where their entries begin.
    pub(crate) stores_offsets: Vec<bool>,
}

/// How a tree is rewritten, and into which directory.
pub(crate) struct RewritePlan {
    pub(crate) layout: BasketLayout,
    /// The order of the baskets within a cluster.
    pub(crate) order: Order,
    pub(crate) memory_bytes: u64,
    /// The form of each branch.
    pub(crate) forms: Vec<BranchForm>,
    /// The offset of the tree's directory in the output.
    pub(crate) seek_directory: u64,
    /// Creation time of the tree, packed as a TDatime.
    pub(crate) date: u32,
    /// The clusters that a killed merge already wrote.
    pub(crate) written_before: VecDeque<PlacedCluster>,
}

/// Rewrites the entries of trees with the same branches into new baskets, one tree after another.
pub(crate) struct Rewriter {
    layout: BasketLayout,
    /// The order of the baskets within a cluster.
    order: Order,
    /// Number of stored bytes to read before they are passed to the threads.
    at_once_bytes: u64,
    frames: Vec<BasketFrame>,
    forms: Vec<BranchForm>,
    pool: Pool<Job, MadeBaskets>,
    /// For each branch, the slices that were read but not yet passed to the threads.
    pending: Vec<Vec<Slice>>,
    pending_entries: u64,
    pending_bytes: u64,
    cluster_entries: u64,
    clusters: VecDeque<Cluster>,
    /// The clusters that a killed merge already wrote and that have not been skipped yet.
    written_before: VecDeque<PlacedCluster>,
    /// The clusters that were written since the last checkpoint.
    written: Vec<PlacedCluster>,
    new: NewBaskets,
}

/// A cluster whose baskets are being made by the threads.
struct Cluster {
    first_entry: u64,
    entries_count: u64,
    jobs_left: usize,
    made: Vec<(usize, Vec<NewBasket>)>,
}

/// A callback that is called with newly written clusters, so that a killed merge can resume after them.
pub(crate) type Checkpoint<'a> = dyn FnMut(Vec<PlacedCluster>, &mut Output) -> Result<()> + 'a;

impl Rewriter {
    /// Creates a rewriter for trees with the same branches as `first`.
    pub(crate) fn new(first: &TTree, plan: RewritePlan) -> Self {
        let RewritePlan { layout, order, memory_bytes, forms, seek_directory, date, written_before } = plan;
        let frame = |name: &String| BasketFrame {
            branch: name.clone().into_bytes(),
            tree: first.name.clone().into_bytes(),
            date,
            seek_directory,
        };
        Self {
            layout,
            order,
            at_once_bytes: limits::REWRITTEN_AT_ONCE_BYTES.min(memory_bytes / limits::REWRITING_MEMORY_DIVISOR),
            frames: first.branches.iter().map(|branch| frame(&branch.name)).collect(),
            forms,
            pool: Pool::new(make),
            pending: first.branches.iter().map(|_| Vec::new()).collect(),
            pending_entries: 0,
            pending_bytes: 0,
            cluster_entries: 0,
            clusters: VecDeque::new(),
            written_before,
            written: Vec::new(),
            new: NewBaskets { places: vec![Vec::new(); first.branches.len()], ..NewBaskets::default() },
        }
    }

    /// Rewrites the entries of a tree. The last entries may stay pending until the entries of the next tree follow, or
    /// until the end.
    pub(crate) fn add(
        &mut self,
        input: &RewrittenTree<'_>,
        output: &mut Output,
        progress: &mut Progress<'_>,
        checkpoint: &mut Checkpoint<'_>,
    ) -> Result<()> {
        let entries_count = input.tree.entries_count;
        if entries_count == 0 {
            return Ok(());
        }
        if input.tree.branches.iter().all(|branch| branch.baskets.is_empty()) {
            // Without baskets there is nothing to rewrite. Do not loop over the entries, because a damaged tree may
            // claim any number of entries.
            let all = 0..entries_count;
            let kept = input.selection.as_ref().map_or(entries_count, |selection| selection.count(all));
            self.new.entries_count = self.new.entries_count.saturating_add(kept);
            return Ok(());
        }
        if self.cluster_entries == 0 {
            self.cluster_entries = self.choose_cluster(input);
        }
        let mut reader = SliceReader::new(input);
        let mut entry = 0;
        while entry < entries_count {
            let stop = self.step(input, entry);
            let kept = input.selection.as_ref().map_or(stop - entry, |selection| selection.count(entry..stop));
            if kept > 0 {
                self.take(&mut reader, entry..stop)?;
                self.pending_entries += kept;
            }
            entry = stop;
            let in_cluster = (self.new.entries_count + self.pending_entries) % self.cluster_entries;
            if in_cluster == 0 || self.pending_bytes > self.at_once_bytes {
                self.flush(output, progress)?;
                if !self.written.is_empty() {
                    checkpoint(std::mem::take(&mut self.written), output)?;
                }
            }
        }
        Ok(())
    }

    /// Reads entries of an input, unless a killed merge already wrote them.
    fn take(&mut self, reader: &mut SliceReader<'_>, entries: Range<u64>) -> Result<()> {
        if !self.written_before.is_empty() {
            self.pending_bytes += reader.stored_bytes(&entries);
            return Ok(());
        }
        for slice in reader.slices(entries)? {
            self.pending_bytes += slice.source.stored_bytes();
            self.pending[slice.source.branch].push(slice);
        }
        Ok(())
    }

    /// Writes all baskets that are in progress, so that the offsets of later data do not depend on the speed of the
    /// threads.
    pub(crate) fn settle(&mut self, output: &mut Output, progress: &mut Progress<'_>) -> Result<()> {
        while self.write_next(output, progress)? {}
        Ok(())
    }

    /// Writes the last cluster.
    pub(crate) fn finish(mut self, output: &mut Output, progress: &mut Progress<'_>) -> Result<NewBaskets> {
        self.flush(output, progress)?;
        self.settle(output, progress)?;
        self.new.cluster_entries = self.cluster_entries;
        self.new.stores_offsets = self.forms.iter().map(|form| form.stores_offsets).collect();
        let largest = |baskets: &Vec<Placed>| baskets.iter().map(|basket| basket.plain_size).max().unwrap_or(0);
        self.new.basket_bytes = match self.layout.basket_bytes {
            Some(bytes) => vec![bytes.into(); self.new.places.len()],
            None => {
                let rounded = |baskets| u64::next_multiple_of(largest(baskets).max(1), BASKET_STEP_BYTES);
                self.new.places.iter().map(rounded).collect()
            }
        };
        Ok(self.new)
    }

    /// Chooses the number of entries in a cluster.
    fn choose_cluster(&self, input: &RewrittenTree<'_>) -> u64 {
        let bytes_max = match self.layout.clusters {
            Some(ClusterSize::Entries(entries)) => return entries.max(1),
            Some(ClusterSize::Bytes(bytes)) => bytes,
            None if input.auto_flush > 0 => return input.auto_flush as u64,
            None => limits::CLUSTER_BYTES,
        };
        let stored = input.tree.branches.iter().fold(0u64, |sum, branch| sum.saturating_add(branch.compressed_bytes));
        let entries = u128::from(input.tree.entries_count) * u128::from(bytes_max) / u128::from(stored.max(1));
        u64::try_from(entries).unwrap_or(u64::MAX).clamp(1, i64::MAX as u64)
    }

    /// Returns the end of the range of entries to read next from an input. The range does not extend beyond the end of
    /// the cluster.
    fn step(&self, input: &RewrittenTree<'_>, entry: u64) -> u64 {
        let entries_count = input.tree.entries_count;
        let done = self.new.entries_count + self.pending_entries;
        let wanted = self.cluster_entries - done % self.cluster_entries;
        let mut stop = entry.saturating_add(wanted).min(entries_count);
        if let Some(selection) = &input.selection {
            // Unselected entries do not count, so extend the range until it has enough selected entries.
            let mut kept = selection.count(entry..stop);
            while kept < wanted && stop < entries_count {
                let next = stop.saturating_add(wanted - kept).min(entries_count);
                kept += selection.count(stop..next);
                stop = next;
            }
        }
        // Baskets are read whole, so the baskets of the first entry are read in any case.
        let least = stored_between(input.tree, entry..entry.saturating_add(1));
        let bytes_max = self.at_once_bytes.max(least);
        while stop - entry > 1 && stored_between(input.tree, entry..stop) > bytes_max {
            stop = entry + (stop - entry) / 2;
        }
        stop
    }

    /// Passes the pending entries to the threads.
    fn flush(&mut self, output: &mut Output, progress: &mut Progress<'_>) -> Result<()> {
        if self.pending_entries == 0 {
            return Ok(());
        }
        if let Some(known) = self.written_before.pop_front() {
            return self.skip_written(known, output, progress);
        }
        let (first_entry, entries_count) = (self.new.entries_count, self.pending_entries);
        self.new.entries_count += entries_count;
        (self.pending_entries, self.pending_bytes) = (0, 0);
        let mut jobs_left = 0;
        let bytes_max = self.layout.basket_bytes.map_or(limits::BASKET_BYTES, |bytes| bytes as usize);
        let mut jobs = Vec::new();
        for (branch, pending) in self.pending.iter_mut().enumerate().filter(|(_, pending)| !pending.is_empty()) {
            let BranchForm { stores_offsets, setting } = self.forms[branch];
            let form = BasketForm { stores_offsets, bytes_max, setting };
            jobs.push(Job { branch, frame: self.frames[branch].clone(), form, slices: std::mem::take(pending) });
            jobs_left += 1;
        }
        let made = Vec::with_capacity(jobs_left);
        self.clusters.push_back(Cluster { first_entry, entries_count, jobs_left, made });
        for job in jobs {
            while self.pool.cost() > 2 * self.at_once_bytes {
                self.write_next(output, progress)?;
            }
            let cost = job.slices.iter().map(|slice| slice.source.plain_bytes()).sum();
            self.pool.hand_over(job, cost);
        }
        Ok(())
    }

    /// Skips a cluster that a killed merge already wrote.
    fn skip_written(&mut self, known: PlacedCluster, output: &mut Output, progress: &mut Progress<'_>) -> Result<()> {
        let mut end = output.end();
        for PlacedBasket { branch, place } in &known.baskets {
            let places = self.new.places.get_mut(*branch).filter(|_| place.seek == end);
            places.ok_or_else(|| other_leftovers(output.path()))?.push(*place);
            end = end.saturating_add(place.size);
        }
        if known.entries_count != self.pending_entries {
            return Err(other_leftovers(output.path()));
        }
        self.new.entries_count += self.pending_entries;
        (self.pending_entries, self.pending_bytes) = (0, 0);
        let bytes = end - output.end();
        output.skip_written(bytes)?;
        progress(bytes)
    }

    /// Collects the result of the oldest job. Once all jobs of a cluster are done, writes the baskets of the cluster in
    /// order. Returns false if no job is left.
    fn write_next(&mut self, output: &mut Output, progress: &mut Progress<'_>) -> Result<bool> {
        let Some(made) = self.pool.next() else { return Ok(false) };
        let path = || output.path().display().to_string();
        let MadeBaskets { branch, baskets } = made.map_err(|panic| ReadError::panicked(&path(), &panic))?;
        let no_cluster = || ReadError::internal(&path(), "a basket belongs to no cluster");
        let cluster = self.clusters.front_mut().ok_or_else(no_cluster)?;
        cluster.made.push((branch, baskets?));
        cluster.jobs_left -= 1;
        if cluster.jobs_left > 0 {
            return Ok(true);
        }
        let Some(Cluster { first_entry, entries_count, made, .. }) = self.clusters.pop_front() else { return Ok(true) };
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
            // Write baskets in the order in which they become full.
            Order::Offset => baskets.sort_by_key(|(entry, branch, basket)| (entry + basket.entries_count, *branch)),
            Order::Branch => baskets.sort_by_key(|(entry, branch, _)| (*branch, *entry)),
        }
        let mut written = PlacedCluster { entries_count, baskets: Vec::with_capacity(baskets.len()) };
        for (first_entry, branch, mut basket) in baskets {
            let (seek, places) = (output.end(), &mut self.new.places[branch]);
            basket.place(places.len(), seek);
            output.write(&basket.record)?;
            let (size, digest) = (basket.record.len() as u64, digest_of(&basket.record));
            let place = Placed { first_entry, seek, size, plain_size: basket.plain_size, digest };
            places.push(place);
            written.baskets.push(PlacedBasket { branch, place });
            progress(size)?;
        }
        self.written.push(written);
        Ok(true)
    }
}
