//! A TTree and its branches, leaves and baskets.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::basket::embedded::EmbeddedBasket;

/// A TTree.
#[derive(Debug, Clone)]
pub struct TTree {
    /// Its name.
    pub name: String,
    /// Its title.
    pub title: String,
    /// Entries in it.
    pub entries_count: u64,
    /// Whether it has aliases, an index or friends.
    pub has_relatives: bool,
    /// Whether its author added objects to it (TTree::GetUserInfo).
    pub has_user_info: bool,
    /// Its branches; a parent comes before its children.
    pub branches: Vec<TBranch>,
}

/// A TBranch or one of its kinds.
#[derive(Debug, Clone)]
pub struct TBranch {
    /// Name, class, leaves: shared by trees of several files that differ in their entries only.
    pub info: Arc<BranchInfo>,
    /// Entries in it.
    pub entries_count: u64,
    /// Bytes before compression, keys included (TBranch::fTotBytes).
    pub plain_bytes: u64,
    /// Bytes in the file (TBranch::fZipBytes).
    pub compressed_bytes: u64,
    /// Its baskets in the order of entries.
    pub baskets: Vec<Basket>,
}

/// The parts of a branch that do not depend on its entries.
#[derive(Debug, Clone)]
pub struct BranchInfo {
    /// The reference of its object in the record of the tree.
    pub object_id: u64,
    /// Names of the branches that lead here and its own, joined with `/`; repeated ones end in `#2`, `#3`.
    pub path: String,
    /// Its own name.
    pub name: String,
    /// Its title.
    pub title: String,
    /// TBranch, TBranchElement, TBranchObject, ...
    pub class_name: String,
    /// Index of the branch that it belongs to.
    pub parent: Option<usize>,
    /// Whether other branches belong to it.
    pub has_children: bool,
    /// Its leaves.
    pub leaves: Vec<TLeaf>,
    /// Compression setting, 100 * algorithm + level; negative for the file's.
    pub compress: i64,
    /// The file that holds its baskets, when it is another one.
    pub file_name: String,
    /// The class that the branch holds, for TBranchElement, TBranchObject and TBranchSTL.
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
    /// Its name.
    pub name: String,
    /// Its title, where dimensions and ranges are declared.
    pub title: String,
    /// TLeafF, TLeafI, ...
    pub class_name: String,
    /// Elements per entry, or per unit of its counter.
    pub length: i64,
    /// Whether a whole number has no sign.
    pub is_unsigned: bool,
    /// Name of the leaf that counts it.
    pub count_name: Option<String>,
    /// Index of the branch of the leaf that counts it.
    pub count_branch: Option<usize>,
}

/// What a TBranchElement records of the class that it was split from.
#[derive(Debug, Clone, Default)]
pub struct ElementBranch {
    /// Class whose member it is.
    pub class_name: String,
    /// Class of a container's elements.
    pub clones_name: String,
    /// Checksum of the class.
    pub checksum: u32,
    /// Version of the class.
    pub class_version: i32,
    /// Index of the member in the streamer info, negative for the whole object.
    pub id: i32,
    /// TBranchElement::fType: 0 member, 1 base, 2 split class, 3 TClonesArray, 4 STL collection, 31 and 41 their
    /// members.
    pub branch_type: i32,
    /// Type code of the member.
    pub streamer_type: i32,
    /// Index of the branch with the number of elements.
    pub count: Option<usize>,
    /// Index of the branch with the length of each element's own array.
    pub count2: Option<usize>,
}

/// One basket of a branch.
#[derive(Debug, Clone)]
pub struct Basket {
    /// Number of its first entry in the tree.
    pub entry_start: u64,
    /// Number of its last entry plus one.
    pub entry_stop: u64,
    /// Where it is.
    pub place: Place,
}

/// Where the bytes of a basket are.
#[derive(Debug, Clone)]
pub enum Place {
    /// A record in the file.
    File {
        /// Offset of the record.
        seek: u64,
        /// Bytes of the record.
        size: u64,
    },
    /// Written together with the tree.
    Embedded(Arc<EmbeddedBasket>),
}
