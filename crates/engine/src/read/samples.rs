//! A small file for tests: one of those that ROOT and uproot wrote for the fuzzers.

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

/// Its tree `events`.
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

/// One column of it with all its baskets, none of which is decoded yet.
pub(crate) fn prepared(branch: &str) -> (Arc<Chunk>, Vec<Task>) {
    let tree = events();
    let column = tree.find(branch).unwrap();
    let entries = 0..tree.entries_count();
    let chunk = Arc::new(Chunk::new(tree, 0, entries, vec![column], &Pool::new(0)));
    let tasks = prepare(&chunk, Room::Free).unwrap();
    (chunk, tasks)
}
