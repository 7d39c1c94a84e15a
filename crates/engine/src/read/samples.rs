//! A small file for tests, taken from the corpus of the fuzzers. The corpus files were written by ROOT and uproot.

use std::path::Path;
use std::sync::Arc;

use branchline_slab::Pool;
use branchline_storage::Access;

use crate::fetch::room::Room;
use crate::file::File;
use crate::read::decode::chunk::Chunk;
use crate::read::decode::task::Task;
use crate::read::stages::prepare;
use crate::tree::Tree;

/// Opens the tree `events` of the file.
pub(crate) fn events() -> Arc<Tree> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/file");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let open = |path: std::path::PathBuf| {
        File::open(path.to_str()?, &Access::default())
            .ok()?
            .tree(Some("events"))
            .ok()
            .filter(|tree| tree.find("hits").is_ok())
    };
    paths.filter_map(open).next().unwrap()
}

/// Prepares a chunk with one column. All its baskets are fetched, but none is decoded.
pub(crate) fn prepared(branch: &str) -> (Arc<Chunk>, Vec<Task>) {
    let tree = events();
    let column = tree.find(branch).unwrap();
    let entries = 0..tree.entries_count();
    let chunk = Arc::new(Chunk::new(tree, 0, entries, vec![column], &Pool::new(0)));
    let tasks = prepare(&chunk, Room::Free).unwrap();
    (chunk, tasks)
}
