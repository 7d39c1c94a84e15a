//! Creates the decoding tasks for the baskets of a chunk in two stages. Some baskets do not store where their entries
//! begin, but rely on element counts in another branch. The first stage provides these counts, and the second stage
//! decodes the columns of the chunk.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

use branchline_format::basket::BasketRecord;
use branchline_format::error::{FormatError, Result as FormatResult};
use branchline_format::layout::{Kind, Layout};
use branchline_slab::Pool;

use crate::error::{ReadError, Result};
use crate::fetch::basket_source::BasketSource;
use crate::fetch::request::{BasketId, Needed};
use crate::fetch::room::Room;
use crate::read::assemble::assemble;
use crate::read::decode::chunk::{Chunk, Reporter};
use crate::read::decode::task::{Counting, Countings, Task};
use crate::read::plan::fetch::fetch;
use crate::read::plan::needed::needed_baskets;
use crate::tree::content::Shape;
use crate::tree::Tree;

/// Baskets that are in memory.
type BasketsInMemory = HashMap<BasketId, BasketSource>;

/// Entries of a count branch. Their counts are decoded together.
#[derive(PartialEq, Eq, Hash)]
struct CountedEntries {
    branch: usize,
    entries: Range<u64>,
}

/// Prepares a chunk that the caller decodes alone. The chunk is finished once all returned tasks have run.
pub(crate) fn prepare(chunk: &Arc<Chunk>, room: Room<'_>) -> Result<Vec<Task>> {
    prepare_with(chunk, &mut BasketsInMemory::new(), room)
}

/// Like `prepare`, but `fetched` already contains some of the baskets, and contains all of them afterwards.
fn prepare_with(chunk: &Arc<Chunk>, fetched: &mut BasketsInMemory, room: Room<'_>) -> Result<Vec<Task>> {
    let own = Reporter::new(chunk);
    let needed = needed_baskets(chunk)?;
    let id = |one: &Needed| one.id(&chunk.columns);
    let missing: Vec<Needed> = needed.iter().filter(|one| !fetched.contains_key(&id(one))).copied().collect();
    fetched.extend(missing.iter().map(id).zip(fetch(chunk, &missing, room)?));
    let sources = needed.iter().filter_map(|one| fetched.get(&id(one)).cloned()).collect();
    let tasks = tasks_of(chunk, 0..chunk.columns.len(), &needed, sources, room, 1)?;
    own.done();
    Ok(tasks)
}

/// Returns the tasks for these columns. The baskets of the columns are all in memory, and this many decoders will run
/// the tasks.
pub(crate) fn tasks_of(
    chunk: &Arc<Chunk>,
    columns: Range<usize>,
    needed: &[Needed],
    sources: Vec<BasketSource>,
    room: Room<'_>,
    decoders: usize,
) -> Result<Vec<Task>> {
    let countings = countings_of(chunk, &columns, needed, &sources, room)?;
    assemble(chunk, columns, needed, sources, &countings, decoders)
}

/// Runs the first stage: returns the element counts that baskets need. Baskets of count branches are fetched if they
/// are not in memory.
fn countings_of(
    chunk: &Arc<Chunk>,
    columns: &Range<usize>,
    needed: &[Needed],
    sources: &[BasketSource],
    room: Room<'_>,
) -> Result<Countings> {
    let tree = &chunk.tree;
    let branches = &chunk.columns[columns.clone()];
    let mut countings = Countings::default();
    if !branches.iter().any(|branch| tree.shape(*branch).is_ok_and(may_be_uncounted)) {
        return Ok(countings);
    }
    let counting: HashSet<usize> = branches.iter().filter_map(|branch| counting_branch(tree, *branch).ok()).collect();
    let ids = needed.iter().map(|one| one.id(&chunk.columns));
    let known = ids.zip(sources).filter(|(id, _)| counting.contains(&id.branch));
    let mut fetched: BasketsInMemory = known.map(|(id, source)| (id, source.clone())).collect();
    // Branches with the same count branch share the countings of its entries.
    let mut shared: HashMap<CountedEntries, Arc<Counting>> = HashMap::new();
    for (one, source) in needed.iter().zip(sources) {
        let id @ BasketId { branch, .. } = one.id(&chunk.columns);
        let entries = tree.basket_entries(branch, one.basket);
        let is_uncounted = is_uncounted(tree.shape(branch)?, source, entries.end - entries.start);
        if !is_uncounted.map_err(|error| basket_error(tree, branch, one.basket, error))? {
            continue;
        }
        let count = counting_branch(tree, branch)?;
        let key = CountedEntries { branch: count, entries: entries.clone() };
        let counting = match shared.get(&key) {
            Some(known) => Arc::clone(known),
            None => {
                let chunk = Chunk::new(Arc::clone(tree), 0, entries, vec![count], &Pool::new(0));
                let chunk = Arc::new(chunk);
                let tasks = Mutex::new(prepare_with(&chunk, &mut fetched, room)?);
                let new = Arc::new(Counting { chunk, tasks, counts: OnceLock::new() });
                shared.insert(key, Arc::clone(&new));
                new
            }
        };
        countings.insert(id, counting);
    }
    Ok(countings)
}

fn basket_error(tree: &Tree, branch: usize, basket: usize, error: FormatError) -> ReadError {
    let basket = tree.basket_name(branch, basket);
    let object = format!("tree {}, branch {}: {basket}", tree.path(), tree.branch_path(branch));
    ReadError::from_format(tree.file().path(), &error.in_object(object))
}

/// Whether baskets of a branch may rely on the element counts of another branch.
fn may_be_uncounted(shape: Shape<'_>) -> bool {
    match shape {
        Shape::Baskets(Layout::Arrays { .. }) => true,
        Shape::Baskets(Layout::Run { count, .. }) => count.is_some(),
        Shape::Baskets(Layout::Objects(program)) => program.count().is_some(),
        Shape::Baskets(Layout::Fixed { .. }) | Shape::Clusters(_) => false,
    }
}

/// Whether a basket can only be decoded with the element counts of another branch.
fn is_uncounted(shape: Shape<'_>, source: &BasketSource, entries_count: u64) -> FormatResult<bool> {
    if !may_be_uncounted(shape) {
        return Ok(false);
    }
    match shape {
        Shape::Baskets(Layout::Arrays { .. }) => return Ok(true),
        Shape::Baskets(Layout::Objects(program)) if program.unsure_array().is_some() => return Ok(true),
        _ => {}
    }
    match source {
        BasketSource::Embedded(basket) => Ok(basket.offsets.is_none()),
        BasketSource::Record(_) | BasketSource::Shared(_) => {
            Ok(!BasketRecord::parse(source.stored(), entries_count)?.stores_bounds())
        }
        // Pages always include collection offsets.
        BasketSource::Pages(_) => Ok(false),
    }
}

/// Returns the branch that holds the element counts for another branch.
fn counting_branch(tree: &Tree, branch: usize) -> Result<usize> {
    let name = tree.branch_path(branch);
    let not_counted = || tree.contradiction(&format!("branch {name} has no valid branch with its element counts"));
    let count = match tree.kind(branch) {
        Some(Kind::Data(Layout::Run { count: Some(count), .. } | Layout::Arrays { count, .. })) => *count,
        Some(Kind::Data(Layout::Objects(program))) => program.count().ok_or_else(not_counted)?,
        _ => return Err(not_counted()),
    };
    // A count branch must be plain. It may need counts from another plain branch, but no further: a file with a cycle
    // would be read forever.
    let is_plain = match tree.kind(count) {
        Some(Kind::Data(Layout::Fixed { dimensions, .. })) => dimensions.is_empty(),
        Some(Kind::Data(Layout::Run { dimensions, count: None, .. })) => dimensions.is_empty(),
        Some(Kind::Data(Layout::Run { dimensions, count: Some(outer), .. })) => {
            dimensions.is_empty() && matches!(tree.kind(*outer), Some(Kind::Data(Layout::Fixed { .. })))
        }
        _ => false,
    };
    if !is_plain {
        return Err(not_counted());
    }
    Ok(count)
}
