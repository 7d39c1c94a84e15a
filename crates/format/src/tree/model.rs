//! A TTree and its branches, leaves and baskets.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::basket::embedded::EmbeddedBasket;

/// A TTree.
#[derive(Debug, Clone)]
pub struct TTree {
    /// Name of the tree.
    pub name: String,
    /// Title of the tree.
    pub title: String,
    /// Number of entries.
    pub entries_count: u64,
    /// Whether the tree has aliases, an index or friends.
    pub has_relatives: bool,
    /// Whether user objects are attached to the tree (TTree::GetUserInfo).
    pub has_user_info: bool,
    /// The branches. Each parent comes before its children.
    pub branches: Vec<TBranch>,
}

/// A TBranch or one of its subclasses.
#[derive(Debug, Clone)]
pub struct TBranch {
    /// Name, class and leaves. Shared by the trees of several files if these differ only in their entries.
    pub info: Arc<BranchInfo>,
    /// Number of entries.
    pub entries_count: u64,
    /// Uncompressed size of the baskets, including keys (TBranch::fTotBytes).
    pub plain_bytes: u64,
    /// Size of the baskets in the file (TBranch::fZipBytes).
    pub compressed_bytes: u64,
    /// The baskets, sorted by entry.
    pub baskets: Vec<Basket>,
}

/// The parts of a branch that do not depend on its entries.
#[derive(Debug, Clone)]
pub struct BranchInfo {
    /// Reference to the branch object in the tree's record.
    pub object_id: u64,
    /// Names of the parent branches and of the branch, joined with `/`. Duplicate paths get the suffix `#2`, `#3`, ...
    pub path: String,
    /// Name of the branch.
    pub name: String,
    /// Title of the branch.
    pub title: String,
    /// Class of the branch object: TBranch, TBranchElement, TBranchObject, ...
    pub class_name: String,
    /// Index of the parent branch.
    pub parent: Option<usize>,
    /// Whether the branch has child branches.
    pub has_children: bool,
    /// The leaves.
    pub leaves: Vec<TLeaf>,
    /// Compression setting, 100 * algorithm + level. A negative value means the file's compression setting.
    pub compress: i64,
    /// Name of the file with the baskets; empty if the baskets are in the tree's own file.
    pub file_name: String,
    /// The class of the contents, for TBranchElement, TBranchObject and TBranchSTL.
    pub element: Option<ElementBranch>,
}

impl Deref for TBranch {
    type Target = BranchInfo;

    fn deref(&self) -> &BranchInfo {
        &self.info
    }
}

impl DerefMut for TBranch {
    fn deref_mut(&mut self) -> &mut BranchInfo {
        Arc::make_mut(&mut self.info)
    }
}

/// A TLeaf.
#[derive(Debug, Clone)]
pub struct TLeaf {
    /// Name of the leaf.
    pub name: String,
    /// Title of the leaf, which declares dimensions and ranges.
    pub title: String,
    /// Class of the leaf object: TLeafF, TLeafI, ...
    pub class_name: String,
    /// Number of elements per entry. If the leaf has a counter, number of elements per counted unit.
    pub length: i64,
    /// Whether the values are unsigned integers.
    pub is_unsigned: bool,
    /// Name of the counter leaf, which holds the array length.
    pub count_name: Option<String>,
    /// Index of the branch that the counter leaf belongs to.
    pub count_branch: Option<usize>,
}

/// Additional properties of a TBranchElement: the class that the branch was split from, and the member.
#[derive(Debug, Clone, Default)]
pub struct ElementBranch {
    /// Class that the member belongs to.
    pub class_name: String,
    /// Class of the elements, if the branch holds a container.
    pub clones_name: String,
    /// Checksum of the class.
    pub checksum: u32,
    /// Version of the class.
    pub class_version: i32,
    /// Index of the member in the streamer info; negative if the branch holds a whole object.
    pub id: i32,
    /// TBranchElement::fType. 0: member, 1: base class, 2: split class, 3: TClonesArray, 4: STL collection, 31: member
    /// of a TClonesArray's elements, 41: member of an STL collection's elements.
    pub branch_type: i32,
    /// Type code of the member.
    pub streamer_type: i32,
    /// Index of the counter branch with the number of elements per entry.
    pub count: Option<usize>,
    /// Index of the counter branch with one array length per element.
    pub count2: Option<usize>,
}

/// A basket of a branch.
#[derive(Debug, Clone)]
pub struct Basket {
    /// The tree's index of the basket's first entry.
    pub entry_start: u64,
    /// The tree's index of the entry after the basket's last entry.
    pub entry_stop: u64,
    /// Location of the basket's bytes.
    pub place: Place,
}

/// Location of a basket's bytes.
#[derive(Debug, Clone)]
pub enum Place {
    /// A separate record in the file.
    File {
        /// Offset of the record.
        seek: u64,
        /// Size of the record.
        size: u64,
    },
    /// The tree's metadata, in which the basket is embedded.
    Embedded(Arc<EmbeddedBasket>),
}
