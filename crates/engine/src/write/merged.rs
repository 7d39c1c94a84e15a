//! The result of a merge.

pub(crate) mod filled;

use std::path::PathBuf;

use crate::error::ReadError;
use filled::FilledColumn;

/// The result of a merge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Merged {
    /// The output files.
    pub outputs: Vec<PathBuf>,
    /// Number of inputs that were merged.
    pub files_count: u64,
    /// Number of trees in all outputs.
    pub trees_count: u64,
    /// Total number of entries in these trees.
    pub entries_count: u64,
    /// Total number of baskets or pages of these trees.
    pub baskets_count: u64,
    /// Total size of these baskets or pages, in bytes.
    pub basket_bytes: u64,
    /// Number of objects other than trees in all outputs.
    pub objects_count: u64,
    /// Total size of all outputs, in bytes.
    pub size_bytes: u64,
    /// Messages about parts of the inputs that are not in the outputs.
    pub left_out: Vec<String>,
    /// Other messages for the user.
    pub notes: Vec<String>,
    /// Branches and fields that some inputs lack and that were filled with 0 or empty values.
    pub filled: Vec<FilledColumn>,
    /// The skipped inputs.
    pub skipped: Vec<SkippedInput>,
}

/// An input that was skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedInput {
    /// Path or URL of the input.
    pub path: String,
    /// The error that caused the input to be skipped.
    pub error: ReadError,
}

impl Merged {
    /// Adds the numbers of a tree in an output.
    pub(crate) fn add_tree(&mut self, entries_count: u64, baskets_count: u64, basket_bytes: u64) {
        self.trees_count += 1;
        self.entries_count += entries_count;
        self.baskets_count += baskets_count;
        self.basket_bytes += basket_bytes;
    }

    /// Adds the result for another output.
    pub(crate) fn add(&mut self, other: &Self) {
        self.trees_count += other.trees_count;
        self.entries_count += other.entries_count;
        self.baskets_count += other.baskets_count;
        self.basket_bytes += other.basket_bytes;
        self.objects_count += other.objects_count;
        self.size_bytes += other.size_bytes;
        self.left_out.extend_from_slice(&other.left_out);
        self.notes.extend_from_slice(&other.notes);
        for more in &other.filled {
            let is_same = |one: &&mut FilledColumn| (&one.tree, &one.name) == (&more.tree, &more.name);
            match self.filled.iter_mut().find(is_same) {
                Some(known) => {
                    known.files_count += more.files_count;
                    known.entries_count += more.entries_count;
                }
                None => self.filled.push(more.clone()),
            }
        }
    }
}
