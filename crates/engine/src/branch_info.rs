//! What is known of a branch before it is read, for people.

/// Whether a branch can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It only groups others.
    Group,
    /// It can.
    Data,
    /// It cannot, and why.
    Unreadable(String),
}

/// What is known of a branch.
#[derive(Debug, Clone)]
pub struct BranchInfo {
    /// What its author says about it.
    pub title: String,
    /// TBranch, TBranchElement, ...; of an RNTuple the class of a field.
    pub class_name: String,
    /// C++ type of its entries.
    pub type_name: String,
    /// The class of a container of whose elements the branches below it hold members; empty for other branches.
    pub container_class: String,
    /// Whether it can be read.
    pub state: State,
    /// Whether all of it is a part of what its parent holds.
    pub is_part: bool,
    /// Entries in it.
    pub entries_count: u64,
    /// Its baskets; of an RNTuple the clusters.
    pub baskets_count: usize,
    /// Its bytes in the file.
    pub compressed_bytes: u64,
    /// Its bytes after decompression.
    pub plain_bytes: u64,
    /// Compression setting, 100 * algorithm + level; negative for the file's.
    pub compress: i64,
}
