//! Reads columns synchronously, in the calling thread. If the bytes of a chunk are wrong, they are read once more,
//! bypassing all caches. If they are wrong again, the file is damaged.
//!
//! ```no_run
//! use branchline_engine::file::File;
//! use branchline_engine::read::read_now::read_now;
//! use branchline_slab::Pool;
//! use branchline_storage::Access;
//!
//! let tree = File::open("data.root", &Access::default())?.tree(Some("events"))?;
//! let chunk = read_now(&tree, vec![0], 0..10, &Pool::new(1 << 20))?;
//! println!("{:?}", chunk.entries);
//! # Ok::<(), branchline_engine::error::ReadError>(())
//! ```

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

/// Reads an entry range of these branches. If the bytes are wrong, they are not read again.
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

/// Reads an entry range of these branches, and returns the finished chunk.
pub fn read_now(tree: &Arc<Tree>, columns: Vec<usize>, entries: Range<u64>, pool: &Arc<Pool>) -> Result<Arc<Chunk>> {
    let chunk = read_once(tree, columns, entries, pool, 0)?;
    Ok(if chunk.failed() { read_again(&chunk, pool).unwrap_or(chunk) } else { chunk })
}

/// Reads the entries of a failed chunk again, if its bytes were wrong. Returns None if that does not help.
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
