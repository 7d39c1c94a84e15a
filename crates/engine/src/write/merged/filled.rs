//! Records which branches or fields were filled, because some trees lack them.

use std::collections::BTreeMap;

/// A branch of a TTree or field of an RNTuple that some inputs lack. The entries of these inputs have 0 or empty values
/// in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilledColumn {
    /// The path of the tree.
    pub tree: String,
    /// The path of the branch or field.
    pub name: String,
    /// Number of inputs that lack the branch or field and have entries.
    pub files_count: u64,
    /// Number of entries in these inputs.
    pub entries_count: u64,
}

/// The filled branches or fields of a tree, keyed by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FilledColumns {
    by_name: BTreeMap<String, FilledCounts>,
}

/// Number of files and number of entries in which a branch or field was filled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct FilledCounts {
    files_count: u64,
    entries_count: u64,
}

impl FilledColumns {
    /// Adds the columns that were filled in a file, with their numbers of entries.
    pub(crate) fn add<'a>(&mut self, filled: impl Iterator<Item = (&'a str, u64)>) {
        for (name, entries_count) in filled {
            let counts = self.by_name.entry(name.to_string()).or_default();
            counts.files_count += 1;
            counts.entries_count = counts.entries_count.saturating_add(entries_count);
        }
    }

    /// Returns all columns, with the path of their tree.
    pub(crate) fn of_tree(&self, path: &str) -> Vec<FilledColumn> {
        let column = |(name, counts): (&String, &FilledCounts)| FilledColumn {
            tree: path.to_string(),
            name: name.clone(),
            files_count: counts.files_count,
            entries_count: counts.entries_count,
        };
        self.by_name.iter().map(column).collect()
    }
}
