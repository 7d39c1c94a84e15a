//! The form of a tree's baskets: their compression, and whether they store where their entries begin.

use std::sync::Arc;

use branchline_format::compress::{Codec, Setting};
use branchline_format::objects::Classes;
use branchline_format::tree::kind_of;
use branchline_format::tree::{TBranch, TTree};
use branchline_format::write::{OwnerKind, Recording};

use crate::write::baskets::counting::counter_of;

/// The form of the baskets of a branch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BranchForm {
    /// Whether the baskets store where their entries begin (TBranch::fEntryOffsetLen).
    pub(crate) stores_offsets: bool,
    pub(crate) setting: Setting,
}

/// Returns the form of each branch of a tree. Baskets are compressed with the given codec. Without a codec, the setting
/// of the branch is used, or else the setting of the file. A branch that claims to be uncompressed but has compressed
/// baskets counts as having no setting, because uproot writes such files.
pub(crate) fn forms(
    tree: &TTree,
    recording: &Recording<'_>,
    codec: Option<Setting>,
    file_compress: i32,
    classes: &Arc<Classes>,
) -> Vec<BranchForm> {
    let usual = Setting::of_root(file_compress.into()).or(Setting::new(Codec::Zlib, 1)).unwrap_or(Setting::NONE);
    let form = |branch: &TBranch| {
        let mut owners = recording.owners.iter();
        let owner = owners.position(|owner| owner.kind == OwnerKind::Branch && owner.id == branch.object_id);
        let length = owner.map_or(0, |owner| recording.value(owner, "fEntryOffsetLen"));
        let is_compressed = branch.compressed_bytes < branch.plain_bytes;
        let own = Setting::of_root(branch.compress).filter(|own| *own != Setting::NONE || !is_compressed);
        let own = own.unwrap_or(usual);
        BranchForm {
            stores_offsets: length > 0 || counter_of(&kind_of(branch, classes)).is_some(),
            setting: codec.unwrap_or(own),
        }
    };
    tree.branches.iter().map(form).collect()
}
