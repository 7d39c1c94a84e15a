//! Reads columns at once, in the calling thread: late reads, and what counts the elements of others.

use std::ops::Range;
use std::sync::Arc;

use crate::assemble::assemble;
use crate::chunk::{Chunk, Reporter};
use crate::error::Result;
use crate::fetch::{fetch, needed_baskets, Room};
use crate::slab::Pool;
use crate::tree::Tree;
use crate::worker::{Task, Worker};

/// Reads these branches for these entries and answers with the finished chunk.
pub fn read_now(tree: &Arc<Tree>, columns: Vec<usize>, entries: Range<u64>, pool: &Arc<Pool>) -> Result<Arc<Chunk>> {
    let (chunk, tasks) = prepare(tree, columns, entries, pool, Room::Free)?;
    let mut worker = Worker::alone();
    for task in tasks {
        worker.run(task, |_, _| ());
    }
    Ok(chunk)
}

/// Fetches what is needed for it: the chunk is finished when all the tasks are run.
pub(crate) fn prepare(
    tree: &Arc<Tree>,
    columns: Vec<usize>,
    entries: Range<u64>,
    pool: &Arc<Pool>,
    room: Room<'_>,
) -> Result<(Arc<Chunk>, Vec<Task>)> {
    let chunk = Arc::new(Chunk::new(Arc::clone(tree), 0, entries, columns, pool));
    let own = Reporter::new(&chunk);
    let needed = needed_baskets(&chunk)?;
    let sources = fetch(&chunk, &needed, room)?;
    let tasks = assemble(&chunk, 0..chunk.columns.len(), &needed, sources, room)?;
    own.done();
    Ok((chunk, tasks))
}
