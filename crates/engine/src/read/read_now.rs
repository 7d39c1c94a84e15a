//! Reads columns at once, in the calling thread. Chunks whose bytes are wrong are read once more, past all caches: if
//! they are wrong again, the file is damaged.

use std::ops::Range;
use std::sync::Arc;

use branchline_slab::Pool;
use branchline_storage::note_wrong_bytes;

use crate::error::{ReadErrorKind, Result};
use crate::fetch::room::Room;
use crate::read::decode::chunk::Chunk;
use crate::read::decode::worker::Worker;
use crate::read::stages::prepare;
use crate::tree::Tree;

/// Reads these branches for these entries, without a second read if the bytes are wrong.
fn read_once(
    tree: &Arc<Tree>,
    columns: Vec<usize>,
    entries: Range<u64>,
    pool: &Arc<Pool>,
    source_index: usize,
) -> Result<Arc<Chunk>> {
    let chunk = Arc::new(Chunk::new(Arc::clone(tree), source_index, entries, columns, pool));
    let mut worker = Worker::alone();
    for task in prepare(&chunk, Room::Free)? {
        worker.run(task, |_, _| ());
    }
    Ok(chunk)
}

/// Reads these branches for these entries; returns the finished chunk.
pub fn read_now(tree: &Arc<Tree>, columns: Vec<usize>, entries: Range<u64>, pool: &Arc<Pool>) -> Result<Arc<Chunk>> {
    let chunk = read_once(tree, columns, entries, pool, 0)?;
    Ok(if chunk.failed() { read_again(&chunk, pool).unwrap_or(chunk) } else { chunk })
}

/// A chunk to replace one that failed, if its bytes were wrong and are right when they are read again.
pub(crate) fn read_again(failed: &Chunk, pool: &Arc<Pool>) -> Option<Arc<Chunk>> {
    let error = failed.error().filter(|error| error.kind == ReadErrorKind::BadFile)?;
    let file = failed.tree.file();
    if error.path != file.path() || file.is_reread() {
        return None;
    }
    let again = || -> Result<Arc<Chunk>> {
        let tree = file.reread()?.tree_once(Some(&failed.tree.location()))?;
        let names = failed.columns.iter().map(|column| failed.tree.branch_path(*column));
        let columns = names.map(|name| tree.find(name)).collect::<Result<Vec<usize>>>()?;
        read_once(&tree, columns, failed.entries.clone(), pool, failed.source_index)
    };
    let chunk = again().ok().filter(|chunk| !chunk.failed())?;
    note_wrong_bytes(file.store_name());
    Some(chunk)
}
