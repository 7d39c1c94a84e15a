//! The metadata of a branch, as they are shown to users.

/// Whether a branch can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It only groups others.
    Group,
    /// It has values that can be read.
    Data,
    /// It cannot be read, for this reason.
    Unreadable(String),
}

/// The metadata of a branch.
#[derive(Debug, Clone)]
pub struct BranchInfo {
    /// Its title.
    pub title: String,
    /// TBranch, TBranchElement, ...; of an RNTuple the class of a field.
    pub class_name: String,
    /// C++ type of its entries.
    pub type_name: String,
    /// The class of a container of whose elements the branches below it hold members; empty for other branches.
    pub container_class: String,
    /// Whether it can be read.
    pub state: State,
    /// Whether its parent holds all of its values.
    pub is_part: bool,
    /// The number of its entries.
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
