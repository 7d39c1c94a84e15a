//! The metadata of a branch, as shown to users.
//!
//! ```no_run
//! use branchline_engine::file::File;
//! use branchline_storage::Access;
//! use branchline_engine::tree::branch_info::State;
//!
//! let tree = File::open("data.root", &Access::default())?.tree(Some("events"))?;
//! let info = tree.branch_info(tree.find("pt")?);
//! assert_eq!(info.state, State::Data);
//! # Ok::<(), branchline_engine::error::ReadError>(())
//! ```

/// Whether a branch can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// The branch has no values of its own and only groups its child branches.
    Group,
    /// The branch has values that can be read.
    Data,
    /// The branch cannot be read, for this reason.
    Unreadable(String),
}

/// The metadata of a branch.
#[derive(Debug, Clone)]
pub struct BranchInfo {
    /// The title of the branch.
    pub title: String,
    /// The class of the branch, such as TBranch or TBranchElement; for an RNTuple, the class of the field.
    pub class_name: String,
    /// C++ type of the entries.
    pub type_name: String,
    /// The class of the container if the child branches hold the members of the container's elements; else empty.
    pub container_class: String,
    /// Whether the branch can be read.
    pub state: State,
    /// Whether the parent branch contains all values of this branch.
    pub is_part: bool,
    /// Number of entries in the branch.
    pub entries_count: u64,
    /// Number of baskets, or of clusters for an RNTuple.
    pub baskets_count: usize,
    /// Number of bytes in the file.
    pub compressed_bytes: u64,
    /// Number of bytes after decompression.
    pub plain_bytes: u64,
    /// Compression setting, 100 * algorithm + level. Negative if the branch uses the setting of the file.
    pub compress: i64,
}
