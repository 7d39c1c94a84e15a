//! Gives every basket of a chunk its place in the output, if possible before anything is decompressed.

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

/// A basket with its bytes, and which of its entries the chunk wants.
struct Fetched {
    basket: usize,
    source: BasketSource,
    basket_start: u64,
    entries_count: u64,
    entries: Range<usize>,
    place: Option<ByteRange>,
}

impl Fetched {
    /// Bytes after decompression, about; none for what is not to share a task.
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

/// Prepares these columns of a chunk, whose baskets are all there, and returns the baskets to decode.
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

/// A column of a chunk, and the tasks that its baskets become.
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

    /// Makes a task of each basket, with the target that `target_of` gives for it and its index.
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

    /// Each basket gives a piece; the pieces are joined when all are there.
    fn in_pieces(&mut self, baskets: Vec<Fetched>) -> Result<UnfinishedColumn> {
        let (branch, countings) = (self.chunk.columns[self.column], self.countings);
        // A trace has a line for each basket, and what counts the elements of one comes with its task.
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
    /// Small baskets that lie behind each other give one piece together.
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

/// How many of this many bytes of a column become one piece: what is one piece is not copied to be joined, but each
/// decoder needs some.
fn piece_bytes(all: u64, decoders: usize) -> u64 {
    let pieces = if decoders > 1 { limits::PIECES_PER_DECODER.saturating_mul(decoders as u64) } else { 1 };
    (all / pieces).clamp(limits::PIECE_BYTES, limits::PIECE_BYTES_MAX)
}

/// Whether the bytes of a basket can fill the entries that the file claims: only then memory is allocated for them.
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

/// The number of elements in a basket that is wanted whole, if its header or the sizes of its pages give it.
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
            // A cluster may claim any number of entries, and each takes an offset.
            let size = elements.checked_mul(element_size)?.checked_add(fetched.entries.len().checked_mul(8)?)?;
            (size / limits::PLAUSIBLE_FACTOR <= fetched.source.stored_bytes()).then_some(elements)
        }
        // A basket that two chunks share is not wanted whole, and an embedded one has no header. Only RNTuples have
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
