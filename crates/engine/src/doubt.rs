//! Bytes that cannot be right are read once more, past all that keeps them and from another replica if there is one: they
//! may have been damaged on their way. If they are the same again, the file is damaged.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use branchline_storage::{note_wrong_bytes, Around, RangeRead, ReadEffort, Store};

use crate::chunk::Chunk;
use crate::error::{ReadErrorKind, Result};
use crate::file::File;
use crate::read_now::read_once;
use crate::slab::Pool;

/// The same file, every byte of which is read anew, until it is settled what its metadata are.
pub(crate) struct Anew {
    store: Arc<dyn Store>,
    is_settled: AtomicBool,
}

impl Anew {
    pub(crate) fn new(store: &Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self { store: Arc::clone(store), is_settled: AtomicBool::new(false) })
    }

    /// From now on it is read as it was.
    pub(crate) fn settle(&self) {
        self.is_settled.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.is_settled.load(Ordering::Relaxed)
    }
}

impl Around for Anew {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    fn read_ranges(&self, reads: &mut [RangeRead]) -> branchline_storage::Result<ReadEffort> {
        if self.is_settled() {
            self.store.read_ranges(reads)
        } else {
            self.store.read_again(reads)
        }
    }

    fn remarks(&self) -> Vec<String> {
        self.store.remarks()
    }
}

/// What `work` makes of a file, or if its bytes seem wrong of the same file read anew.
pub(crate) fn doubted<T>(file: &Arc<File>, work: impl Fn(&Arc<File>) -> Result<T>) -> Result<T> {
    let error = match work(file) {
        Err(error) if error.kind == ReadErrorKind::BadFile && !file.is_anew() => error,
        done => return done,
    };
    // What is told is what was met first: a replica that cannot be reached says nothing about the bytes.
    let again = || {
        let anew = file.anew()?;
        let done = work(&anew)?;
        anew.settle();
        Ok(done)
    };
    let done = again().map_err(|_: crate::error::ReadError| error)?;
    note_wrong_bytes(file.store_name());
    Ok(done)
}

/// The chunk in the place of one that failed, if its bytes were wrong and are right when they are read anew.
pub(crate) fn read_anew(failed: &Chunk, pool: &Arc<Pool>) -> Option<Arc<Chunk>> {
    let error = failed.error().filter(|error| error.kind == ReadErrorKind::BadFile)?;
    let file = failed.tree.file();
    if error.path != file.path() || file.is_anew() {
        return None;
    }
    let again = || -> Result<Arc<Chunk>> {
        let tree = file.anew()?.tree_once(Some(&failed.tree.location()))?;
        let names = failed.columns.iter().map(|column| failed.tree.branch_path(*column));
        let columns = names.map(|name| tree.find(name)).collect::<Result<Vec<usize>>>()?;
        read_once(&tree, columns, failed.entries.clone(), pool, failed.source_index)
    };
    let chunk = again().ok().filter(|chunk| !chunk.failed())?;
    note_wrong_bytes(file.store_name());
    Some(chunk)
}
