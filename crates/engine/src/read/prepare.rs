//! Chunks that one thread makes from their fetching to their end: late reads, and what counts the elements of others.

use std::ops::Range;
use std::sync::Arc;

use crate::error::Result;
use crate::read::assemble::assemble;
use crate::read::chunk::{Chunk, Reporter};
use crate::read::counts::Baskets;
use crate::read::fetch::{fetch, needed_baskets, Needed, Room};
use crate::read::slab::Pool;
use crate::read::worker::{Task, Worker};
use crate::tree::Tree;

/// Reads these branches for these entries and answers with the finished chunk, whatever the bytes are like.
pub(crate) fn read_once(
    tree: &Arc<Tree>,
    columns: Vec<usize>,
    entries: Range<u64>,
    pool: &Arc<Pool>,
    source_index: usize,
) -> Result<Arc<Chunk>> {
    let chunk = Arc::new(Chunk::new(Arc::clone(tree), source_index, entries, columns, pool));
    let tasks = prepare_chunk(&chunk, &mut Baskets::new(), Room::Free)?;
    let mut worker = Worker::alone();
    for task in tasks {
        worker.run(task, |_, _| ());
    }
    Ok(chunk)
}

/// A chunk of which the baskets that are not `there` yet are fetched, and are there then: it is finished when all the tasks
/// are run.
pub(crate) fn prepare(
    tree: &Arc<Tree>,
    columns: Vec<usize>,
    entries: Range<u64>,
    there: &mut Baskets,
    room: Room<'_>,
) -> Result<(Arc<Chunk>, Vec<Task>)> {
    let chunk = Arc::new(Chunk::new(Arc::clone(tree), 0, entries, columns, &Pool::new(0)));
    let tasks = prepare_chunk(&chunk, there, room)?;
    Ok((chunk, tasks))
}

fn prepare_chunk(chunk: &Arc<Chunk>, there: &mut Baskets, room: Room<'_>) -> Result<Vec<Task>> {
    let own = Reporter::new(chunk);
    let needed = needed_baskets(chunk)?;
    let place = |one: &Needed| (chunk.columns[one.column], one.basket);
    let missing: Vec<Needed> = needed.iter().filter(|one| !there.contains_key(&place(one))).copied().collect();
    there.extend(missing.iter().map(place).zip(fetch(chunk, &missing, room)?));
    let sources = needed.iter().filter_map(|one| there.get(&place(one)).cloned()).collect();
    let tasks = assemble(chunk, 0..chunk.columns.len(), &needed, sources, room)?;
    own.done();
    Ok(tasks)
}
