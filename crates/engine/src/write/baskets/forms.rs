//! The form of the baskets of a tree: compression, and whether they store where entries begin.

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
    /// Whether they say where entries begin (TBranch::fEntryOffsetLen).
    pub(crate) stores_offsets: bool,
    pub(crate) setting: Setting,
}

/// Of each branch of a tree whose record was taken apart. Baskets are compressed with the given codec, else as those of
/// the branch, else as the file says in a number of ROOT. A branch that is said to be
/// uncompressed, but has compressed baskets, counts as not said: uproot writes so.
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
