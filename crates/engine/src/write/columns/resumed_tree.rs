//! A TTree in an updated file. Entries and branches are added, and the existing baskets stay where they are.

use std::collections::HashMap;

use branchline_format::compress::Setting;
use branchline_format::tree::{Place, TBranch, TTree};
use branchline_format::write::tree::continued::is_of_kind;
use branchline_format::write::tree::tree_record::{BranchKind, WrittenBasket};

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::write::columns::baskets::BranchForm;
use crate::write::columns::tree::{forms_of, OpenBranch, OpenTree};
use crate::write::columns::writer::{NamedColumn, NewColumns, OpenColumns, Values};
use crate::write::new_file::{NewFile, SlotId};

const HINT: &str = "write a new tree with the entries of both";

impl OpenTree {
    /// Resumes writing a tree whose branches have the types of the given values. `counts` contains the largest value of
    /// each counter. Returns an error if the tree has other kinds of branches, or parts that would be lost.
    pub(crate) fn resume(
        file: &NewFile,
        (new, slot): (NewColumns, SlotId),
        fields: &[NamedColumn<'_>],
        old: &TTree,
        counts: &HashMap<String, i32>,
    ) -> Result<Self> {
        let (path, name) = (file.path(), new.name.clone());
        let refused = |reason: &str| {
            let message = format!("tree {name} cannot be extended: {reason}");
            ReadError::new(ReadErrorKind::Unsupported, &path, message).with_hint(HINT)
        };
        if old.has_relatives || old.has_user_info {
            return Err(refused("its aliases, index, friends or user information would be lost"));
        }
        let mut forms = forms_of(file, &new, fields, &BranchKind::Characters)?;
        let mut branches = Vec::with_capacity(forms.len());
        for number in 0..forms.len() {
            let counter = match forms[number].kind {
                BranchKind::Counted(_, _, counter) => Some(forms[counter].name.clone()),
                _ => None,
            };
            let form = &mut forms[number];
            let found = old.branches.iter().find(|branch| branch.path == form.name);
            let Some(found) = found.filter(|branch| is_of_kind(branch, &form.kind, counter.as_deref())) else {
                return Err(refused(&format!("writing its branch {} is not supported", form.name)));
            };
            let Some(branch) = resumed_branch(found, old.entries_count, form, counts) else {
                return Err(refused(&format!("branch {} has baskets outside the file", form.name)));
            };
            branches.push(branch);
        }
        if let Some(other) = old.branches.iter().find(|branch| !forms.iter().any(|form| form.name == branch.path)) {
            return Err(refused(&format!("writing its branch {} is not supported", other.path)));
        }
        let mut tree = Self::of(new, slot, forms, fields.len());
        (tree.branches, tree.entries_count) = (branches, old.entries_count);
        Ok(tree)
    }

    /// Adds branches, with values for all existing entries.
    pub(super) fn add_branches(&mut self, file: &mut NewFile, fields: &[NamedColumn<'_>]) -> Result<()> {
        // Closing the cluster early must not determine the cluster size.
        let size = self.cluster.size;
        self.end_cluster();
        self.cluster.size = size;
        self.write_waiting(file, &[])?;
        let forms = forms_of(file, &self.new, fields, &BranchKind::Characters)?;
        let mut added = Self::of(self.new.clone(), self.slot, forms, fields.len());
        let values: Vec<Values<'_>> = fields.iter().map(|field| field.values.clone()).collect();
        let count = usize::try_from(self.entries_count)
            .map_err(|_| ReadError::internal(&file.path(), "a tree has more entries than fit in memory"))?;
        added.fill(file, &values, count)?;
        added.end_cluster();
        added.write_waiting(file, &[])?;
        let before = self.forms.len();
        for form in &mut added.forms {
            form.source.field += self.fields_count;
            if let BranchKind::Counted(_, _, counter) = &mut form.kind {
                *counter += before;
            }
        }
        self.forms.append(&mut added.forms);
        self.branches.append(&mut added.branches);
        self.fields_count += fields.len();
        Ok(())
    }
}

/// Returns the state of an existing branch. Returns None if some baskets of the branch are missing or in another file.
fn resumed_branch(
    old: &TBranch,
    entries_count: u64,
    form: &mut BranchForm,
    counts: &HashMap<String, i32>,
) -> Option<OpenBranch> {
    let mut baskets = Vec::with_capacity(old.baskets.len());
    let mut next = 0;
    for basket in &old.baskets {
        let Place::File { seek, size } = basket.place else { return None };
        if basket.entry_start != next {
            return None;
        }
        baskets.push(WrittenBasket { size, first_entry: basket.entry_start, seek });
        next = basket.entry_stop;
    }
    if next != entries_count || old.entries_count != entries_count {
        return None;
    }
    if let Some(setting) = Setting::of_root(old.compress) {
        form.setting = setting;
    }
    form.title = Some(old.title.clone());
    let count_max = match form.kind {
        BranchKind::Counter => counts.get(&form.name).copied()?,
        BranchKind::Characters => i32::try_from(old.leaves.first()?.length.saturating_sub(1)).ok()?,
        _ => 0,
    };
    Some(OpenBranch {
        entries_before: entries_count,
        baskets,
        plain_bytes: old.plain_bytes,
        stored_bytes: old.compressed_bytes,
        count_max,
        ..OpenBranch::default()
    })
}
