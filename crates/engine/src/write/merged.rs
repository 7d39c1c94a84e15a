//! What a merge made.

pub(crate) mod filled;

use std::path::PathBuf;

use crate::error::ReadError;
use filled::FilledColumn;

/// What was made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Merged {
    /// The outputs.
    pub outputs: Vec<PathBuf>,
    /// Inputs that are in them.
    pub files_count: u64,
    /// Trees of all outputs.
    pub trees_count: u64,
    /// Their entries.
    pub entries_count: u64,
    /// Their baskets or pages.
    pub baskets_count: u64,
    /// Bytes of these.
    pub basket_bytes: u64,
    /// Other objects of all outputs.
    pub objects_count: u64,
    /// Bytes of all outputs.
    pub size_bytes: u64,
    /// Sentences on parts of the inputs that are not in the outputs.
    pub left_out: Vec<String>,
    /// Other sentences for the user.
    pub notes: Vec<String>,
    /// Branches and fields that some inputs lack, and that were filled.
    pub filled: Vec<FilledColumn>,
    /// Inputs that were left out.
    pub skipped: Vec<SkippedInput>,
}

/// An input that was left out, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedInput {
    /// Path or URL.
    pub path: String,
    /// Why.
    pub error: ReadError,
}

impl Merged {
    /// Adds a tree of an output.
    pub(crate) fn add_tree(&mut self, entries_count: u64, baskets_count: u64, basket_bytes: u64) {
        self.trees_count += 1;
        self.entries_count += entries_count;
        self.baskets_count += baskets_count;
        self.basket_bytes += basket_bytes;
    }

    /// Adds what was made in another output.
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
