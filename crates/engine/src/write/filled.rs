//! Which branches or fields were filled in trees that lack them.

use std::collections::BTreeMap;

/// A branch of a TTree, or a field of an RNTuple, that some inputs lack: their entries have 0 or nothing in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilledColumn {
    /// The path of the tree.
    pub tree: String,
    /// The path of the branch or field.
    pub name: String,
    /// Inputs that lack it, and have entries.
    pub files_count: u64,
    /// Their entries.
    pub entries_count: u64,
}

/// Those of a tree: files and entries by the path of the branch or field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FilledColumns {
    by_name: BTreeMap<String, (u64, u64)>,
}

impl FilledColumns {
    /// Adds those of a file, with their entries.
    pub(crate) fn add<'a>(&mut self, filled: impl Iterator<Item = (&'a str, u64)>) {
        for (name, entries_count) in filled {
            let (files, entries) = self.by_name.entry(name.to_string()).or_default();
            *files += 1;
            *entries += entries_count;
        }
    }

    /// All of them, of the tree with this path.
    pub(crate) fn of_tree(&self, path: &str) -> Vec<FilledColumn> {
        let column = |(name, (files_count, entries_count)): (&String, &(u64, u64))| FilledColumn {
            tree: path.to_string(),
            name: name.clone(),
            files_count: *files_count,
            entries_count: *entries_count,
        };
        self.by_name.iter().map(column).collect()
    }
}
