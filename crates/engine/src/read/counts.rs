//! How many elements the entries of a branch have, from the branch that counts them: for baskets that do not store
//! where their entries begin. The counting baskets are fetched with the others, and decoded by whoever needs them first.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use branchline_format::column::Column;
use branchline_format::decode::{whole_numbers, Counts};
use branchline_format::layout::{Kind, Layout};

use crate::error::Result;
use crate::read::basket_source::BasketSource;
use crate::read::chunk::{Chunk, Effort};
use crate::read::fetch::{Needed, Room};
use crate::read::prepare::prepare;
use crate::read::slab::Buffer;
use crate::read::worker::{Task, Worker};
use crate::tree::Tree;

/// Baskets that are in memory, by their branch and their index in it.
pub(crate) type Baskets = HashMap<(usize, usize), BasketSource>;

/// The countings of a chunk, each shared by all branches that are counted by the same one.
pub(crate) struct Counters<'a> {
    room: Room<'a>,
    known: HashMap<(usize, u64, u64), Arc<Counting>>,
    /// Each counting basket is fetched once, whichever of its entries are wanted.
    baskets: Baskets,
}

impl<'a> Counters<'a> {
    /// Counts by these columns of a chunk, of which the baskets are there, and by what has to be fetched.
    pub(crate) fn new(
        room: Room<'a>,
        chunk: &Chunk,
        columns: Range<usize>,
        needed: &[Needed],
        sources: &[BasketSource],
    ) -> Self {
        let branches = &chunk.columns[columns];
        let counting: HashSet<usize> =
            branches.iter().filter_map(|branch| counting_branch(&chunk.tree, *branch).ok()).collect();
        let there = needed.iter().zip(sources).map(|(one, source)| ((chunk.columns[one.column], one.basket), source));
        let baskets = there.filter(|((branch, _), _)| counting.contains(branch));
        let baskets = baskets.map(|(place, source)| (place, source.clone())).collect();
        Self { room, known: HashMap::new(), baskets }
    }

    /// What counts these entries of a branch; of its baskets those that are not there are fetched now.
    pub(crate) fn counting(&mut self, tree: &Arc<Tree>, branch: usize, entries: Range<u64>) -> Result<Arc<Counting>> {
        let count = counting_branch(tree, branch)?;
        let key = (count, entries.start, entries.end);
        if let Some(known) = self.known.get(&key) {
            return Ok(Arc::clone(known));
        }
        let (chunk, tasks) = prepare(tree, vec![count], entries, &mut self.baskets, self.room)?;
        let counting = Arc::new(Counting { chunk, tasks: Mutex::new(tasks), counts: OnceLock::new() });
        self.known.insert(key, Arc::clone(&counting));
        Ok(counting)
    }
}

/// The baskets of a branch that counts the elements of others.
#[derive(Debug)]
pub(crate) struct Counting {
    chunk: Arc<Chunk>,
    tasks: Mutex<Vec<Task>>,
    counts: OnceLock<Result<Counts>>,
}

impl Counting {
    /// The counts, and what it took if they were not known yet.
    pub(crate) fn counts(&self, worker: &mut Worker) -> Result<(&Counts, Option<Effort>)> {
        let mut effort = None;
        let counts = self.counts.get_or_init(|| {
            let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
            for task in tasks {
                worker.run(task, |_, _| ());
            }
            effort = self.chunk.costs.first().map(Effort::of_column);
            let column = self.chunk.take()?.into_iter().next();
            let no_counts = || self.chunk.tree.contradiction("the branch that counts it holds no counts");
            column.and_then(counts_in).ok_or_else(no_counts)
        });
        counts.as_ref().map(|counts| (counts, effort)).map_err(Clone::clone)
    }
}

/// The branch that counts the elements of another.
fn counting_branch(tree: &Tree, branch: usize) -> Result<usize> {
    let name = tree.branch_path(branch);
    let not_counted = || tree.contradiction(&format!("branch {name} names no branch that counts it"));
    let count = match tree.kind(branch) {
        Some(Kind::Data(Layout::Run { count: Some(count), .. } | Layout::Arrays { count, .. })) => *count,
        Some(Kind::Data(Layout::Objects(program))) => program.count().ok_or_else(not_counted)?,
        _ => return Err(not_counted()),
    };
    // A branch that counts is counted by none that would count it: files that say so would be read for ever.
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

fn counts_in(column: Column<Buffer, Buffer>) -> Option<Counts> {
    match column {
        Column::Flat { dtype, values } => whole_numbers(dtype, values.bytes()).map(Counts::Entries),
        Column::List { offsets, content } => match *content {
            Column::Flat { dtype, values } => whole_numbers("i8", offsets.bytes())
                .zip(whole_numbers(dtype, values.bytes()))
                .map(|(ends, all)| Counts::Elements(ends, all)),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{ReadError, ReadErrorKind};
    use crate::read::samples::events;

    #[test]
    fn what_fails_in_the_counting_branch_keeps_its_kind() {
        let tree = events();
        let (hits, entries) = (tree.find("hits").unwrap(), 0..tree.entries_count());
        for kind in [ReadErrorKind::Internal, ReadErrorKind::Storage, ReadErrorKind::BadFile] {
            let mut counters = Counters { room: Room::Free, known: HashMap::new(), baskets: Baskets::new() };
            let counting = counters.counting(&tree, hits, entries.clone()).unwrap();
            counting.chunk.put_error((0, 0), ReadError::new(kind, "file", "it failed"));
            let error = counting.counts(&mut Worker::alone()).err().unwrap();
            assert_eq!((error.kind, error.message.as_str()), (kind, "it failed"));
        }
    }
}
