//! Assigns every basket of a chunk its position in the output, if possible before the basket is decompressed.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use branchline_format::basket::{BasketRecord, ScratchBytes};
use branchline_format::layout::Layout;
use branchline_slab::OpenSlab;
use branchline_storage::ByteRange;
use branchline_trace::journal;

use crate::error::Result;
use crate::fetch::basket_source::BasketSource;
use crate::fetch::request::{BasketId, Needed};
use crate::limits;
use crate::read::decode::chunk::{Chunk, Reporter, UnfinishedColumn};
use crate::read::decode::task::{Countings, Follower, Target, Task};
use crate::tree::content::Shape;

/// A fetched basket, and the entries of the basket that belong to the chunk.
struct Fetched {
    basket: usize,
    source: BasketSource,
    basket_start: u64,
    entries_count: u64,
    entries: Range<usize>,
    place: Option<ByteRange>,
}

impl Fetched {
    /// Approximate number of bytes after decompression. None if the basket must not share a task with other baskets.
    fn shared_bytes(&self, scratch: ScratchBytes) -> Option<u64> {
        let is_record = matches!(self.source, BasketSource::Record(_));
        is_record.then(|| scratch.kept.max(self.source.stored_bytes() as u64))
    }

    fn is_whole(&self) -> bool {
        self.entries.len() as u64 == self.entries_count
    }

    fn task(self, chunk: &Arc<Chunk>, column: usize, target: Target) -> Task {
        Task {
            reporter: Reporter::new(chunk),
            chunk: Arc::clone(chunk),
            column,
            scratch: self.source.scratch(self.entries_count),
            source: self.source,
            basket: self.basket,
            basket_start: self.basket_start,
            entries_count: self.entries_count,
            entries: self.entries,
            place: self.place,
            target,
            followers: VecDeque::new(),
            at_work: None,
        }
    }
}

/// Creates the decoding tasks for these columns of a chunk. All baskets of the columns must have been fetched.
pub(crate) fn assemble(
    chunk: &Arc<Chunk>,
    columns: Range<usize>,
    needed: &[Needed],
    sources: Vec<BasketSource>,
    countings: &Countings,
    decoders: usize,
) -> Result<Vec<Task>> {
    let mut by_column: Vec<Vec<Fetched>> = columns.clone().map(|_| Vec::new()).collect();
    for (one, source) in needed.iter().zip(sources) {
        let branch = chunk.columns[one.column];
        let basket = chunk.tree.basket_entries(branch, one.basket);
        let start = chunk.entries.start.max(basket.start) - basket.start;
        let stop = chunk.entries.end.min(basket.end) - basket.start;
        by_column[one.column - columns.start].push(Fetched {
            basket: one.basket,
            source,
            basket_start: basket.start,
            entries_count: basket.end - basket.start,
            entries: start as usize..stop as usize,
            place: journal::is_on().then(|| chunk.tree.basket_place(branch, one.basket)).flatten(),
        });
    }
    let mut tasks = Vec::with_capacity(needed.len());
    for (column, baskets) in columns.zip(by_column) {
        let assembly = Assembly { chunk, column, countings, decoders, tasks: &mut tasks };
        match assembly.assemble(baskets) {
            Ok(column_parts) => chunk.begin_column(column, column_parts),
            Err(error) => {
                tasks.into_iter().for_each(Task::cancel);
                return Err(error);
            }
        }
    }
    Ok(tasks)
}

/// Turns the baskets of one column of a chunk into tasks.
struct Assembly<'a> {
    chunk: &'a Arc<Chunk>,
    column: usize,
    countings: &'a Countings,
    decoders: usize,
    tasks: &'a mut Vec<Task>,
}

impl Assembly<'_> {
    fn assemble(mut self, baskets: Vec<Fetched>) -> Result<UnfinishedColumn> {
        let shape = self.chunk.tree.shape(self.chunk.columns[self.column])?;
        let element_size = shape.numbers().and_then(|numbers| {
            numbers.dimensions.iter().try_fold(numbers.size, |product, extent| product.checked_mul(*extent))
        });
        let Some(element_size) = element_size else { return self.in_pieces(baskets) };
        if !shape.is_run() {
            return if baskets.iter().all(|one| is_plausible(shape, one, element_size)) {
                self.place_fixed(baskets, element_size)
            } else {
                self.in_pieces(baskets)
            };
        }
        let counts = baskets.iter().map(|one| elements_count(shape, element_size, one));
        match counts.collect::<Option<Vec<usize>>>() {
            Some(counts) => self.place_runs(baskets, &counts, element_size),
            None => self.in_pieces(baskets),
        }
    }

    /// Adds a task for each basket. `target_of` returns the target of the task for the basket's index.
    fn add_tasks(
        &mut self,
        baskets: Vec<Fetched>,
        mut target_of: impl FnMut(usize, &Fetched) -> Option<Target>,
    ) -> Result<()> {
        for (index, one) in baskets.into_iter().enumerate() {
            let no_room = || self.chunk.internal("a basket has no room in its column");
            let target = target_of(index, &one).ok_or_else(no_room)?;
            self.tasks.push(one.task(self.chunk, self.column, target));
        }
        Ok(())
    }

    fn place_fixed(&mut self, baskets: Vec<Fetched>, entry_size: usize) -> Result<UnfinishedColumn> {
        let entries: usize = baskets.iter().map(|one| one.entries.len()).sum();
        let (slab, mut parts) = OpenSlab::new(entries * entry_size, &self.chunk.pool).share();
        self.add_tasks(baskets, |_, one| Some(Target::Fixed { values: parts.cut(one.entries.len() * entry_size)? }))?;
        debug_assert!(parts.is_used_up());
        Ok(UnfinishedColumn::InPlace { values: slab, offsets: None })
    }

    fn place_runs(&mut self, baskets: Vec<Fetched>, counts: &[usize], element_size: usize) -> Result<UnfinishedColumn> {
        let entries: usize = baskets.iter().map(|one| one.entries.len()).sum();
        let mut offsets_slab = OpenSlab::new(8 * (entries + 1), &self.chunk.pool);
        offsets_slab.bytes_mut()[..8].fill(0);
        let (offsets_slab, mut offsets_parts) = offsets_slab.share();
        let values_size = counts.iter().sum::<usize>() * element_size;
        let (values_slab, mut values_parts) = OpenSlab::new(values_size, &self.chunk.pool).share();
        let _first_offset = offsets_parts.cut(8);
        let mut next_element = 0;
        self.add_tasks(baskets, |index, one| {
            let count = *counts.get(index)?;
            let first_element = next_element;
            next_element += count as i64;
            let offsets = offsets_parts.cut(8 * one.entries.len())?;
            Some(Target::Run { first_element, offsets, values: values_parts.cut(count * element_size)? })
        })?;
        debug_assert!(offsets_parts.is_used_up() && values_parts.is_used_up());
        Ok(UnfinishedColumn::InPlace { values: values_slab, offsets: Some(offsets_slab) })
    }

    /// Decodes each basket into a piece. The pieces are joined once all baskets are decoded.
    fn in_pieces(&mut self, baskets: Vec<Fetched>) -> Result<UnfinishedColumn> {
        let (branch, countings) = (self.chunk.columns[self.column], self.countings);
        // Some baskets cannot share a task: a trace has a line for each basket, and a task carries the element counts
        // of only one basket.
        let is_counted = |one: &Fetched| countings.of(BasketId { branch, basket: one.basket }).is_some();
        let is_of_objects = matches!(self.chunk.tree.shape(branch)?, Shape::Baskets(Layout::Objects(_)));
        if is_of_objects && !journal::is_on() && !baskets.iter().any(is_counted) {
            return Ok(self.in_shared_pieces(baskets));
        }
        let pieces = baskets.iter().map(|_| None).collect();
        self.add_tasks(baskets, |index, one| {
            let counting = countings.of(BasketId { branch, basket: one.basket });
            Some(Target::Piece { index, counting })
        })?;
        Ok(UnfinishedColumn::Pieces(pieces))
    }
}

impl Assembly<'_> {
    /// Decodes adjacent small baskets into one piece.
    fn in_shared_pieces(&mut self, baskets: Vec<Fetched>) -> UnfinishedColumn {
        let scratches: Vec<_> = baskets.iter().map(|one| one.source.scratch(one.entries_count)).collect();
        let shared = baskets.iter().zip(&scratches).filter_map(|(one, scratch)| one.shared_bytes(*scratch));
        let piece_bytes = piece_bytes(shared.sum(), self.decoders);
        let (mut pieces, mut room) = (0, 0);
        for (one, scratch) in baskets.into_iter().zip(scratches) {
            let bytes = one.shared_bytes(scratch);
            match (self.tasks.last_mut(), bytes.filter(|bytes| pieces > 0 && *bytes <= room)) {
                (Some(task), Some(bytes)) => {
                    room -= bytes;
                    task.scratch.kept = task.scratch.kept.max(scratch.kept);
                    task.scratch.passing = task.scratch.passing.max(scratch.passing);
                    let Fetched { basket, source, basket_start, entries_count, entries, .. } = one;
                    task.followers.push_back(Follower { source, basket, basket_start, entries_count, entries });
                }
                _ => {
                    room = bytes.map_or(0, |bytes| piece_bytes.saturating_sub(bytes));
                    let target = Target::Piece { index: pieces, counting: None };
                    self.tasks.push(one.task(self.chunk, self.column, target));
                    pieces += 1;
                }
            }
        }
        UnfinishedColumn::Pieces((0..pieces).map(|_| None).collect())
    }
}

/// Returns the target size of the pieces of a column with this size. A single piece would not have to be joined, but
/// each decoder needs a few pieces to be busy until the end.
fn piece_bytes(all: u64, decoders: usize) -> u64 {
    let pieces = if decoders > 1 { limits::PIECES_PER_DECODER.saturating_mul(decoders as u64) } else { 1 };
    (all / pieces).clamp(limits::PIECE_BYTES, limits::PIECE_BYTES_MAX)
}

/// Whether the stored bytes of a basket can plausibly contain the claimed entries. If not, memory is only allocated
/// after decompression.
fn is_plausible(shape: Shape<'_>, fetched: &Fetched, entry_size: usize) -> bool {
    match (shape, &fetched.source) {
        (Shape::Baskets(Layout::Fixed { scalar, dimensions }), BasketSource::Record(_) | BasketSource::Shared(_)) => {
            let stored_size = scalar.stored_size() * dimensions.iter().product::<usize>();
            let record = BasketRecord::parse(fetched.source.stored(), fetched.entries_count);
            record.is_ok_and(|record| record.has_entries_of(stored_size) && record.check_declared_size().is_ok())
        }
        (Shape::Baskets(_) | Shape::Clusters(_), source) => {
            let size = fetched.entries.len().checked_mul(entry_size);
            size.is_some_and(|size| size / limits::PLAUSIBLE_FACTOR <= source.stored_bytes())
        }
    }
}

/// Returns the number of elements in a basket that is wanted whole, if the header of the basket or the sizes of its
/// pages determine the number.
fn elements_count(shape: Shape<'_>, element_size: usize, fetched: &Fetched) -> Option<usize> {
    if !fetched.is_whole() {
        return None;
    }
    match (shape, &fetched.source) {
        (Shape::Baskets(layout), BasketSource::Record(_)) => {
            let record = BasketRecord::parse(fetched.source.stored(), fetched.entries_count).ok()?;
            record.check_declared_size().ok()?;
            record.run_elements_count(layout)
        }
        (Shape::Clusters(form), BasketSource::Pages(pages)) => {
            let elements = usize::try_from(pages.cluster.run_elements(&pages.ntuple.schema, form)?).ok()?;
            // A cluster may claim any number of entries, and each entry needs an offset.
            let size = elements.checked_mul(element_size)?.checked_add(fetched.entries.len().checked_mul(8)?)?;
            (size / limits::PLAUSIBLE_FACTOR <= fetched.source.stored_bytes()).then_some(elements)
        }
        // A shared basket is not wanted whole by either chunk, an embedded basket has no header, and only RNTuples have
        // pages.
        (Shape::Baskets(_), BasketSource::Shared(_) | BasketSource::Embedded(_) | BasketSource::Pages(_)) => None,
        (Shape::Clusters(_), BasketSource::Record(_) | BasketSource::Shared(_) | BasketSource::Embedded(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decoder_alone_makes_large_pieces_and_several_share_them_out() {
        for (bytes, decoders, expected) in [
            (1 << 20, 1, 1 << 20),
            (100 << 20, 1, limits::PIECE_BYTES_MAX),
            (16 << 20, 2, 2 << 20),
            (1 << 20, 8, limits::PIECE_BYTES),
        ] {
            assert_eq!(piece_bytes(bytes, decoders), expected);
        }
    }
}
