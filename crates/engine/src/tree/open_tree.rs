//! Opens a TTree or an RNTuple by its path. If any bytes of the metadata are wrong, everything is read once more. If
//! the bytes are wrong again, the file is damaged.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use branchline_format::error::FormatError;
use branchline_format::file::directory::Entry;
use branchline_format::file::TKey;
use branchline_format::ntuple::anchor;
use branchline_format::ntuple::envelope::Locator;
use branchline_format::tree::kind_of;
use branchline_format::tree::read_tree;
use branchline_storage::note_wrong_bytes;
use branchline_trace::{Counter, Stopwatch};

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::file::external::Externals;
use crate::file::key_path::KeyPath;
use crate::file::rntuple_metadata::Ntuple;
use crate::file::{add_open_time, some_of, File};
use crate::tree::content::Content;
use crate::tree::rntuple::ClusterTree;
use crate::tree::ttree::BasketTree;
use crate::tree::Tree;

/// The kinds of trees. Each has its own implementation of [`Content`].
#[derive(Debug, Clone, Copy)]
enum TreeClass {
    Tree,
    Ntuple,
}

/// The key of a tree, and its class.
struct FoundTree {
    entry: Entry,
    class: TreeClass,
}

impl File {
    /// Whether the object of a key is a TTree or an RNTuple.
    pub fn is_tree(&self, key: &TKey) -> bool {
        self.tree_class(key).is_some()
    }

    fn tree_class(&self, key: &TKey) -> Option<TreeClass> {
        match key.class_name.as_str() {
            "TTree" | "TNtuple" | "TNtupleD" => Some(TreeClass::Tree),
            anchor::CLASS_NAME | anchor::OLD_CLASS_NAME => Some(TreeClass::Ntuple),
            other => self.class_infos().inherits(other, "TTree").then_some(TreeClass::Tree),
        }
    }

    /// Returns the distinct paths of all trees in the file.
    fn tree_paths(&self) -> Result<Vec<String>> {
        let mut seen = HashSet::new();
        let mut is_tree: HashMap<String, bool> = HashMap::new();
        let mut paths = Vec::new();
        for entry in self.entries_below("")? {
            let class_name = entry.key.class_name.clone();
            let is_tree = *is_tree.entry(class_name).or_insert_with(|| self.is_tree(&entry.key));
            if is_tree && seen.insert(entry.path.clone()) {
                paths.push(entry.path);
            }
        }
        Ok(paths)
    }

    /// Opens the tree with this path (`name;cycle` for an older cycle), or the file's only tree.
    pub fn tree(self: &Arc<Self>, path: Option<&str>) -> Result<Arc<Tree>> {
        with_second_read(self, |file| file.tree_once(path))
    }

    /// Like `tree`, but does not read the file a second time if bytes are wrong.
    pub(crate) fn tree_once(self: &Arc<Self>, path: Option<&str>) -> Result<Arc<Tree>> {
        let watch = Stopwatch::start();
        let before = self.counters().snapshot().get(Counter::FetchNs);
        let FoundTree { entry, class } = self.find_tree_and_class(path)?;
        let content: Arc<dyn Content> = match class {
            TreeClass::Tree => Arc::new(self.open_ttree(&entry)?),
            TreeClass::Ntuple => {
                Arc::new(ClusterTree::new(Ntuple::open(&mut self.metadata_reader(), &entry, self.classes())?))
            }
        };
        let tree = Tree::new(Arc::clone(self), entry, content);
        add_open_time(self.counters(), &watch, before);
        Ok(Arc::new(tree))
    }

    fn open_ttree(&self, Entry { path, key }: &Entry) -> Result<BasketTree> {
        let named = |error: FormatError| ReadError::from_format(self.path(), &error.in_object(path));
        if key.class_name == "TChain" || self.class_infos().inherits(&key.class_name, "TChain") {
            // If a TChain were read as a tree, it would have no entries, and the entries of its files would be lost
            // silently.
            let message = "a TChain, which lists other files and has no entries".to_owned();
            return Err(named(FormatError::unsupported(message)));
        }
        let mut reader = self.metadata_reader();
        if self.strategy().reads_records_alone() {
            reader.fetch([Locator { offset: key.seek, size: key.size }])?;
        }
        let plain = reader.object(key)?;
        let meta = read_tree(&plain, key.key_size, &key.class_name, self.class_infos()).map_err(named)?;
        let kinds: Vec<_> = meta.branches.iter().map(|branch| kind_of(branch, self.classes())).collect();
        let externals = Externals::open(self, &meta.branches, &kinds);
        Ok(BasketTree { meta, kinds, externals })
    }

    /// Returns the key of the tree with this path, or of the file's only tree.
    pub(crate) fn find_tree(&self, path: Option<&str>) -> Result<Entry> {
        Ok(self.find_tree_and_class(path)?.entry)
    }

    fn find_tree_and_class(&self, path: Option<&str>) -> Result<FoundTree> {
        let Some(path) = path else {
            return match self.tree_paths()?.as_slice() {
                [only] => self.find_tree_and_class(Some(only)),
                [] => Err(ReadError::new(ReadErrorKind::NoSuchKey, self.path(), "the file has no tree")),
                many => {
                    let message = format!("the file has several trees: {}", some_of(many));
                    let hint = format!("choose one, e.g. {}:{}", self.path(), many[0]);
                    Err(ReadError::new(ReadErrorKind::NoSuchKey, self.path(), message).with_hint(hint))
                }
            };
        };
        let wanted = KeyPath::parse(path);
        let mut keys = self.find(wanted.path)?.into_iter().filter(|key| wanted.fits(key));
        let found = keys.find_map(|key| self.tree_class(&key).map(|class| (key, class)));
        let missing = || ReadError::new(ReadErrorKind::NoSuchKey, self.path(), format!("there is no tree {path:?}"));
        let (key, class) = found.ok_or_else(missing)?;
        Ok(FoundTree { entry: Entry { path: wanted.path.to_string(), key }, class })
    }
}

/// Runs `work` on a file. If bytes are wrong, rereads the file and runs `work` once more.
fn with_second_read<T>(file: &Arc<File>, work: impl Fn(&Arc<File>) -> Result<T>) -> Result<T> {
    let error = match work(file) {
        Err(error) if error.kind == ReadErrorKind::BadFile && !file.is_reread() => error,
        done => return done,
    };
    // If the second attempt fails too, the first error is reported: an unreachable replica says nothing about the
    // bytes.
    let again = || {
        let reread = file.reread()?;
        let done = work(&reread)?;
        reread.trust();
        Ok(done)
    };
    let done = again().map_err(|_: crate::error::ReadError| error)?;
    note_wrong_bytes(file.store_name());
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::samples::events;

    #[test]
    fn a_cycle_is_a_number_and_anything_else_a_part_of_the_name() {
        let tree = events();
        let file = tree.file();
        assert_eq!(file.tree(Some("events;1")).unwrap().location(), "events;1");
        for name in ["events;2", "events;x", "events;", "events;1x"] {
            assert_eq!(file.tree(Some(name)).unwrap_err().kind, ReadErrorKind::NoSuchKey, "{name}");
            assert_eq!(file.tree_members(name).unwrap_err().kind, ReadErrorKind::NoSuchKey, "{name}");
        }
    }
}
