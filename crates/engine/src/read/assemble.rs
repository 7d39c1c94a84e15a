//! Gives every basket of a chunk its place in the output, before anything is decompressed where that is possible.

use std::ops::Range;
use std::sync::Arc;

use branchline_format::basket::BasketRecord;
use branchline_format::layout::Layout;
use branchline_slab::OpenSlab;
use branchline_storage::ByteRange;
use branchline_trace::journal;

use crate::error::{ReadError, Result};
use crate::limits;
use crate::read::basket_source::BasketSource;
use crate::read::chunk::{Chunk, Making, Reporter};
use crate::read::fetch_request::Needed;
use crate::read::task::{Countings, Target, Task};
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
            at_work: None,
        }
    }
}

/// Prepares these columns of a chunk, whose baskets are all there, and answers with the baskets to decode.
pub(crate) fn assemble(
    chunk: &Arc<Chunk>,
    columns: Range<usize>,
    needed: &[Needed],
    sources: Vec<BasketSource>,
    countings: &Countings,
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
    for (column, fetched) in columns.zip(by_column) {
        match assemble_column(chunk, column, fetched, countings, &mut tasks) {
            Ok(making) => chunk.set_making(column, making),
            Err(error) => {
                tasks.into_iter().for_each(Task::cancel);
                return Err(error);
            }
        }
    }
    Ok(tasks)
}

fn assemble_column(
    chunk: &Arc<Chunk>,
    column: usize,
    fetched: Vec<Fetched>,
    countings: &Countings,
    tasks: &mut Vec<Task>,
) -> Result<Making> {
    let shape = chunk.tree.shape(chunk.columns[column])?;
    let element_size = shape.numbers().and_then(|numbers| {
        numbers.dimensions.iter().try_fold(numbers.size, |product, extent| product.checked_mul(*extent))
    });
    let Some(element_size) = element_size else { return pieces(chunk, column, fetched, countings, tasks) };
    if !shape.is_run() {
        return if fetched.iter().all(|one| is_plausible(shape, one, element_size)) {
            place_fixed(chunk, column, fetched, element_size, tasks)
        } else {
            pieces(chunk, column, fetched, countings, tasks)
        };
    }
    let counts: Option<Vec<usize>> = fetched.iter().map(|one| elements_count(shape, element_size, one)).collect();
    match counts {
        Some(counts) => place_runs(chunk, column, element_size, fetched, &counts, tasks),
        None => pieces(chunk, column, fetched, countings, tasks),
    }
}

/// What a file says of its entries sizes no memory that its bytes could not fill.
fn is_plausible(shape: Shape<'_>, fetched: &Fetched, entry_size: usize) -> bool {
    match (shape, &fetched.source) {
        (Shape::Baskets(Layout::Fixed { scalar, dimensions }), BasketSource::Record(_) | BasketSource::Shared(_)) => {
            let stored_size = scalar.stored_size() * dimensions.iter().product::<usize>();
            let record = BasketRecord::parse(fetched.source.stored(), fetched.entries_count);
            record.is_ok_and(|record| record.has_entries_of(stored_size) && record.check_declared_size().is_ok())
        }
        (_, source) => {
            let size = fetched.entries.len().checked_mul(entry_size);
            size.is_some_and(|size| size / limits::PLAUSIBLE_FACTOR <= source.stored_bytes())
        }
    }
}

fn no_room(chunk: &Chunk) -> ReadError {
    chunk.internal("a basket has no room in its column")
}

fn place_fixed(
    chunk: &Arc<Chunk>,
    column: usize,
    fetched: Vec<Fetched>,
    entry_size: usize,
    tasks: &mut Vec<Task>,
) -> Result<Making> {
    let entries: usize = fetched.iter().map(|one| one.entries.len()).sum();
    let (slab, mut parts) = OpenSlab::new(entries * entry_size, &chunk.pool).share();
    let sizes: Vec<usize> = fetched.iter().map(|one| one.entries.len() * entry_size).collect();
    for (one, size) in fetched.into_iter().zip(sizes) {
        let values = parts.cut(size).ok_or_else(|| no_room(chunk))?;
        tasks.push(one.task(chunk, column, Target::Fixed { values }));
    }
    debug_assert!(parts.is_used_up());
    Ok(Making::Direct { values: slab, offsets: None })
}

/// Elements in a basket that is wanted whole, if its head tells; in a cluster, if the sizes of its pages do.
fn elements_count(shape: Shape<'_>, element_size: usize, fetched: &Fetched) -> Option<usize> {
    if !fetched.is_whole() {
        return None;
    }
    let layout = match (shape, &fetched.source) {
        (Shape::Baskets(layout), BasketSource::Record(_)) => layout,
        (Shape::Clusters(form), BasketSource::Pages(pages)) => {
            let elements = usize::try_from(pages.cluster.run_elements(&pages.ntuple.schema, form)?).ok()?;
            let size = elements.checked_mul(element_size)?;
            return (size / limits::PLAUSIBLE_FACTOR <= fetched.source.stored_bytes()).then_some(elements);
        }
        _ => return None,
    };
    let stored = fetched.source.stored();
    let record = BasketRecord::parse(stored, fetched.entries_count).ok()?;
    record.check_declared_size().ok()?;
    record.run_elements_count(layout)
}

fn place_runs(
    chunk: &Arc<Chunk>,
    column: usize,
    element_size: usize,
    fetched: Vec<Fetched>,
    counts: &[usize],
    tasks: &mut Vec<Task>,
) -> Result<Making> {
    let entries: usize = fetched.iter().map(|one| one.entries.len()).sum();
    let mut offsets_slab = OpenSlab::new(8 * (entries + 1), &chunk.pool);
    offsets_slab.bytes_mut()[..8].fill(0);
    let (offsets_slab, mut offsets_parts) = offsets_slab.share();
    let values_size = counts.iter().sum::<usize>() * element_size;
    let (values_slab, mut values_parts) = OpenSlab::new(values_size, &chunk.pool).share();
    let _first_offset = offsets_parts.cut(8);
    let mut first_element = 0;
    for (one, count) in fetched.into_iter().zip(counts) {
        let offsets = offsets_parts.cut(8 * one.entries.len()).ok_or_else(|| no_room(chunk))?;
        let values = values_parts.cut(count * element_size).ok_or_else(|| no_room(chunk))?;
        tasks.push(one.task(chunk, column, Target::Run { first_element, offsets, values }));
        first_element += *count as i64;
    }
    debug_assert!(offsets_parts.is_used_up() && values_parts.is_used_up());
    Ok(Making::Direct { values: values_slab, offsets: Some(offsets_slab) })
}

fn pieces(
    chunk: &Arc<Chunk>,
    column: usize,
    fetched: Vec<Fetched>,
    countings: &Countings,
    tasks: &mut Vec<Task>,
) -> Result<Making> {
    let mut pieces = Vec::with_capacity(fetched.len());
    for (index, one) in fetched.into_iter().enumerate() {
        let counting = countings.get(&(chunk.columns[column], one.basket)).cloned();
        pieces.push(None);
        tasks.push(one.task(chunk, column, Target::Piece { index, counting }));
    }
    Ok(Making::Pieces(pieces))
}
