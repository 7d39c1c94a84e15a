//! Appending entries to the branches of an existing tree.
//!
//! ```
//! use branchline_format::classes::streamer::ClassInfos;
//! use branchline_format::numbers::number::Number;
//! use branchline_format::tree::read_tree;
//! use branchline_format::write::tree::tree_record::{BranchKind, NewBranch, NewTree};
//! use branchline_format::write::tree::continued::is_of_kind;
//!
//! # let branch = NewBranch {
//! #     name: "x".to_string(),
//! #     title: None,
//! #     kind: BranchKind::Numbers(Number::F32, Vec::new()),
//! #     compress: 505,
//! #     baskets: Vec::new(),
//! #     plain_bytes: 0,
//! #     stored_bytes: 0,
//! #     basket_size: 32_000,
//! #     count_max: 0,
//! # };
//! # let tree = NewTree {
//! #     name: "events".to_string(),
//! #     title: String::new(),
//! #     entries_count: 0,
//! #     cluster_entries: 1000,
//! #     branches: vec![branch],
//! # };
//! # let read = read_tree(&tree.record(0)?, 0, "TTree", &ClassInfos::default())?;
//! // A branch of single floats.
//! let old = &read.branches[0];
//! assert!(is_of_kind(old, &BranchKind::Numbers(Number::F32, Vec::new()), None));
//! assert!(!is_of_kind(old, &BranchKind::Numbers(Number::F64, Vec::new()), None));
//! # Ok::<(), branchline_format::error::FormatError>(())
//! ```

use crate::numbers::leaf_class::LeafClass;
use crate::numbers::number::Number;
use crate::tree::TBranch;

use super::tree_record::BranchKind;

/// Whether an existing branch has this kind and its counter leaf has the name `counter` (None for no counter).
pub fn is_of_kind(old: &TBranch, kind: &BranchKind, counter: Option<&str>) -> bool {
    let is_plain = old.class_name == "TBranch" && old.parent.is_none() && old.file_name.is_empty();
    let ([leaf], true) = (old.leaves.as_slice(), is_plain && !old.has_children) else { return false };
    let holds = |number: Number, dimensions: &[usize]| {
        let class = LeafClass::of_class(&leaf.class_name, leaf.is_unsigned);
        let length = dimensions.iter().product::<usize>();
        class.is_some_and(|class| class.number == number && class.is_unsigned == leaf.is_unsigned)
            && usize::try_from(leaf.length).is_ok_and(|own| own == length)
    };
    let is_counted = leaf.count_name.as_deref() == counter;
    match kind {
        BranchKind::Numbers(number, dimensions) | BranchKind::Counted(number, dimensions, _) => {
            is_counted && holds(*number, dimensions)
        }
        BranchKind::Counter => is_counted && holds(Number::I32, &[]),
        BranchKind::Characters => is_counted && leaf.class_name == "TLeafC",
        BranchKind::Text | BranchKind::List(_) | BranchKind::Lists(_) | BranchKind::Texts => false,
    }
}
