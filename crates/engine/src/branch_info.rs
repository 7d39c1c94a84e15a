//! What is known of a branch before it is read, for people.

use branchline_format::layout::Kind;
use branchline_format::tree::{ElementBranch, TBranch};
use branchline_format::type_name::type_name;

use crate::basket_ranges::stored_bytes;
use crate::ntuple::Ntuple;
use crate::tree::{Content, Tree};

/// Whether a branch can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It only groups others.
    Group,
    /// It can.
    Data,
    /// It cannot, and why.
    Unsupported(String),
}

/// What is known of a branch.
#[derive(Debug, Clone)]
pub struct About {
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

impl Tree {
    /// Index of the branch that another belongs to.
    pub fn parent(&self, index: usize) -> Option<usize> {
        match self.content() {
            Content::Tree { meta, .. } => meta.branches[index].parent,
            Content::Ntuple(ntuple) => ntuple.branches[index].parent,
        }
    }

    /// Index of the branch that says how many elements the entries of another have.
    pub fn counter(&self, index: usize) -> Option<usize> {
        let Content::Tree { meta, .. } = self.content() else { return None };
        let branch = &meta.branches[index];
        let of_element = branch.element.as_ref().and_then(|element| element.count);
        of_element.or_else(|| branch.leaves.first().and_then(|leaf| leaf.count_branch))
    }

    /// Whether a branch can be read.
    pub fn state(&self, index: usize) -> State {
        match self.content() {
            Content::Tree { kinds, .. } => state_of(&kinds[index]),
            Content::Ntuple(ntuple) => match ntuple.form(index) {
                Ok(_) => State::Data,
                Err(reason) => State::Unsupported(reason.to_string()),
            },
        }
    }

    /// What is known of a branch.
    pub fn about(&self, index: usize) -> About {
        match self.content() {
            Content::Tree { meta, kinds, .. } => about_branch(&meta.branches[index], &kinds[index]),
            Content::Ntuple(ntuple) => self.about_field(ntuple, index),
        }
    }

    fn about_field(&self, ntuple: &Ntuple, index: usize) -> About {
        let field = ntuple.field(index);
        let sizes = ntuple.branch_sizes(self.file(), &[index]);
        About {
            title: field.description.clone(),
            class_name: "ROOT::RField".to_string(),
            type_name: field.type_name.clone(),
            container_class: String::new(),
            state: self.state(index),
            is_part: ntuple.branches[index].parent.is_some(),
            entries_count: self.entries_count(),
            baskets_count: ntuple.clusters(self.file()).map_or(0, <[_]>::len),
            compressed_bytes: sizes.stored,
            plain_bytes: sizes.plain,
            compress: sizes.compression.map_or(-1, i64::from),
        }
    }
}

fn state_of(kind: &Kind) -> State {
    match kind {
        Kind::Group => State::Group,
        Kind::Data(_) => State::Data,
        Kind::Unsupported { reason, .. } => State::Unsupported(reason.clone()),
    }
}

fn about_branch(branch: &TBranch, kind: &Kind) -> About {
    let stored = stored_bytes(branch);
    About {
        title: branch.title.clone(),
        class_name: branch.class_name.clone(),
        type_name: type_name(kind, branch),
        container_class: branch.element.as_ref().map_or_else(String::new, container_class),
        state: state_of(kind),
        is_part: false,
        entries_count: branch.entries_count,
        baskets_count: branch.baskets.len(),
        compressed_bytes: branch.compressed_bytes.max(stored),
        plain_bytes: branch.plain_bytes.max(stored),
        compress: branch.compress,
    }
}

/// The class of a container that was split: TBranchElement::fType 3 is a TClonesArray, 4 an STL collection.
fn container_class(element: &ElementBranch) -> String {
    match element.branch_type {
        3 => "TClonesArray".to_string(),
        4 if element.class_name.contains('<') => element.class_name.clone(),
        4 => format!("vector<{}>", element.clones_name),
        _ => String::new(),
    }
}
