//! A TTree that is made from columns of values, in a new file.

use std::ops::Range;

use branchline_format::write::tree::tree_record::{BranchKind, NewBranch, NewTree, WrittenBasket};
use branchline_format::write::BasketFrame;

use crate::error::{ReadError, Result};
use crate::limits;
use crate::write::columns::baskets::{BasketEntries, BasketRoom, BranchForm, OpenBasket, ROOMS};
use crate::write::columns::branches::{branches_of, PlannedBranch, PlannedBranches};
use crate::write::columns::writer::{refuse, Filled, NamedColumn, NewColumns, OpenColumns, Values};
use crate::write::new_file::{NewFile, ObjectName, SlotId};
use crate::write::pages::ratio::CompressionRatio;
use crate::write::parallel::each_in_order;
use crate::write::spare::{Lent, Spare};

/// A TTree that is being written.
pub(crate) struct OpenTree {
    pub(super) new: NewColumns,
    pub(super) slot: SlotId,
    pub(super) forms: Vec<BranchForm>,
    pub(super) branches: Vec<OpenBranch>,
    pub(super) fields_count: usize,
    pub(super) entries_count: u64,
    pub(super) cluster: Cluster,
    /// Full baskets, in the order in which they will be written.
    waiting: Vec<Waiting>,
    /// Total size of the waiting baskets. `streamed_bytes` is the total size of the waiting baskets with streamed
    /// entries, which take memory.
    waiting_bytes: usize,
    streamed_bytes: usize,
    /// Memory of written records, for reuse.
    spare: Spare,
}

/// A branch that is being written.
#[derive(Clone, Default)]
pub(super) struct OpenBranch {
    pub(super) open: OpenBasket,
    /// Number of entries in all written baskets.
    pub(super) entries_before: u64,
    pub(super) baskets: Vec<WrittenBasket>,
    pub(super) plain_bytes: u64,
    pub(super) stored_bytes: u64,
    pub(super) count_max: i32,
}

/// A full basket with the index of its branch.
struct Waiting {
    branch: usize,
    entries: BasketEntries,
}

/// The cluster that is being filled.
#[derive(Clone, Default)]
pub(super) struct Cluster {
    entries_count: u64,
    /// Total size of the values in the cluster.
    plain_bytes: u64,
    clusters_count: u64,
    /// Number of entries in each cluster. None until it is known.
    pub(super) size: Option<u64>,
    /// The compression ratio of all written baskets.
    ratio: CompressionRatio,
}

impl OpenTree {
    /// Creates a tree whose branches have the types of the fields' values.
    pub(crate) fn begin(
        file: &mut NewFile,
        new: NewColumns,
        fields: &[NamedColumn<'_>],
        text: &BranchKind,
    ) -> Result<Self> {
        let forms = forms_of(file, &new, fields, text)?;
        let slot = file.reserve(new.directory);
        Ok(Self::of(new, slot, forms, fields.len()))
    }

    /// Creates a tree without entries.
    pub(super) fn of(new: NewColumns, slot: SlotId, forms: Vec<BranchForm>, fields_count: usize) -> Self {
        let branches = forms.iter().map(|_| OpenBranch::default()).collect();
        let cluster = Cluster { size: new.layout.cluster_entries, ..Cluster::default() };
        let (waiting, waiting_bytes, streamed_bytes) = (Vec::new(), 0, 0);
        let (entries_count, spare) = (0, Spare::default());
        Self {
            new,
            slot,
            forms,
            branches,
            fields_count,
            entries_count,
            cluster,
            waiting,
            waiting_bytes,
            streamed_bytes,
            spare,
        }
    }

    /// Adds entries to all branches, up to the end of the cluster.
    fn take(&mut self, values: &[Values<'_>], wanted: &Range<usize>, path: &str) -> Result<()> {
        for (number, (branch, form)) in self.branches.iter_mut().zip(&self.forms).enumerate() {
            let own = form.values(values, path)?;
            let (waiting, waiting_bytes) = (&mut self.waiting, &mut self.waiting_bytes);
            let streamed_bytes = &mut self.streamed_bytes;
            let mut full = |entries: BasketEntries| {
                *waiting_bytes += entries.bytes(form);
                *streamed_bytes += entries.streamed_bytes();
                waiting.push(Waiting { branch: number, entries });
            };
            let taken = branch.open.take(form, &own, wanted.clone(), &mut full);
            let longest = taken.and_then(|()| match form.kind {
                BranchKind::Counter | BranchKind::Characters => own.longest(wanted),
                _ => Ok(0),
            });
            let longest = longest.map_err(|reason| form.mismatch(reason, path))?;
            branch.count_max = branch.count_max.max(longest);
        }
        Ok(())
    }

    /// Whether the cluster is complete.
    fn is_cluster_full(&self) -> bool {
        let Cluster { entries_count, plain_bytes, size, ratio, .. } = &self.cluster;
        match size {
            Some(size) => entries_count >= size,
            None => {
                let stored = if ratio.plain_bytes == 0 { *plain_bytes } else { ratio.stored(*plain_bytes) };
                stored >= self.new.layout.cluster_bytes
            }
        }
    }

    /// Ends the cluster. All branches then start a new basket.
    pub(super) fn end_cluster(&mut self) {
        if self.cluster.entries_count == 0 {
            return;
        }
        for (number, (branch, form)) in self.branches.iter_mut().zip(&self.forms).enumerate() {
            if let Some(entries) = branch.open.end() {
                self.waiting_bytes += entries.bytes(form);
                self.streamed_bytes += entries.streamed_bytes();
                self.waiting.push(Waiting { branch: number, entries });
            }
        }
        // As in ROOT, the first cluster determines the number of entries of all clusters (TTree::SetAutoFlush).
        self.cluster.size.get_or_insert(self.cluster.entries_count);
        self.entries_count += self.cluster.entries_count;
        self.cluster.clusters_count += 1;
        (self.cluster.entries_count, self.cluster.plain_bytes) = (0, 0);
    }

    /// Turns the open entries of the current values into baskets, in each branch that has enough of them.
    fn end_given(&mut self, values: &[Values<'_>], path: &str) -> Result<()> {
        for (number, (branch, form)) in self.branches.iter_mut().zip(&self.forms).enumerate() {
            let ended = branch.open.end_given(form, &form.values(values, path)?);
            if let Some(entries) = ended.map_err(|reason| form.mismatch(reason, path))? {
                self.waiting_bytes += entries.bytes(form);
                self.waiting.push(Waiting { branch: number, entries });
            }
        }
        Ok(())
    }

    /// Makes the waiting baskets on all cores, and writes them in order.
    pub(super) fn write_waiting(&mut self, file: &mut NewFile, values: &[Values<'_>]) -> Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        (self.waiting_bytes, self.streamed_bytes) = (0, 0);
        let (forms, branches, ratio) = (&self.forms, &mut self.branches, &mut self.cluster.ratio);
        let (path, spare) = (file.path(), &self.spare);
        let make = |room: &mut Lent<BasketRoom>, Waiting { branch, entries }: &Waiting| {
            forms[*branch].basket(entries, values, (room, spare.take_used(forms[*branch].basket_bytes)), &path)
        };
        each_in_order(
            &waiting,
            || ROOMS.lend(),
            make,
            |Waiting { branch, .. }, basket| {
                let (mut basket, branch) = (basket?, &mut branches[*branch]);
                let seek = file.end();
                basket.place(branch.baskets.len(), seek);
                file.output().write(&basket.record)?;
                let size = basket.record.len() as u64;
                branch.baskets.push(WrittenBasket { size, first_entry: branch.entries_before, seek });
                branch.entries_before += basket.entries_count;
                branch.plain_bytes += basket.plain_size;
                branch.stored_bytes += size;
                ratio.stored_bytes += size;
                ratio.plain_bytes += basket.plain_size;
                spare.give(basket.record);
                Ok(())
            },
        )
    }

    /// Whether the waiting baskets should be written now. The result must not depend on the number of threads, because
    /// the file would then depend on it too.
    fn is_much_waiting(&self) -> bool {
        // Until the first cluster ends, its size depends on the compression ratio, which is only known from written
        // baskets.
        let bytes = if self.cluster.size.is_some() { self.streamed_bytes } else { self.waiting_bytes };
        bytes > limits::PAGES_AT_ONCE_BYTES
    }
}

/// Returns the forms of the branches for the fields' values. Returns an error that lists all values that cannot be
/// written, if there are any.
pub(super) fn forms_of(
    file: &NewFile,
    new: &NewColumns,
    fields: &[NamedColumn<'_>],
    text: &BranchKind,
) -> Result<Vec<BranchForm>> {
    let path = file.path();
    let PlannedBranches { branches, refused } = branches_of(fields, text);
    refuse(&path, &refused)?;
    let seek_directory = file.seek_of(new.directory);
    let form = |PlannedBranch { name, kind, source }: PlannedBranch| {
        let frame = BasketFrame {
            branch: name.clone().into_bytes(),
            tree: new.name.clone().into_bytes(),
            date: new.date,
            seek_directory,
        };
        let setting = new.codecs.get(&name).copied().unwrap_or(new.layout.setting);
        let basket_bytes = new.layout.page_bytes as usize;
        let key_size = frame.key_size().map_err(|error| ReadError::from_format(&path, &error))?.into();
        Ok(BranchForm { name, title: None, kind, source, frame, key_size, basket_bytes, setting })
    };
    branches.into_iter().map(form).collect()
}

impl OpenColumns for OpenTree {
    fn fill(&mut self, file: &mut NewFile, values: &[Values<'_>], count: usize) -> Result<()> {
        let path = file.path();
        if values.len() != self.fields_count {
            let message = format!("got values of {} fields, expected {}", values.len(), self.fields_count);
            return Err(ReadError::internal(&path, &message));
        }
        let bytes: u64 = values.iter().map(|column| column.size_bytes() as u64).sum();
        let portion = (count as u64 * limits::FILLED_AT_ONCE_BYTES / bytes.max(1)).max(1);
        let mut start = 0;
        while start < count {
            let room = self.cluster.size.map_or(portion, |most| most - self.cluster.entries_count);
            let end = start + room.min((count - start) as u64) as usize;
            self.take(values, &(start..end), &path)?;
            self.cluster.entries_count += (end - start) as u64;
            self.cluster.plain_bytes += (u128::from(bytes) * (end - start) as u128 / count as u128) as u64;
            start = end;
            if self.is_much_waiting() {
                self.write_waiting(file, values)?;
            }
            if self.is_cluster_full() {
                self.end_cluster();
            }
        }
        self.end_given(values, &path)?;
        let is_given = |one: &Waiting| matches!(one.entries, BasketEntries::Given(_));
        if self.waiting.iter().any(is_given) || self.is_much_waiting() {
            self.write_waiting(file, values)?;
        }
        for (branch, form) in self.branches.iter_mut().zip(&self.forms) {
            let kept = branch.open.keep(form, &form.values(values, &path)?);
            kept.map_err(|reason| form.mismatch(reason, &path))?;
        }
        Ok(())
    }

    fn write_full(&mut self, file: &mut NewFile) -> Result<()> {
        for (number, (branch, form)) in self.branches.iter_mut().zip(&self.forms).enumerate() {
            if branch.open.streamed_bytes() >= limits::PUBLISHED_BASKET_BYTES.min(form.basket_bytes) {
                self.waiting.extend(branch.open.end().map(|entries| Waiting { branch: number, entries }));
            }
        }
        self.write_waiting(file, &[])
    }

    fn snapshot(&self, file: &mut NewFile) -> Result<Filled> {
        if !self.waiting.is_empty() {
            return Err(ReadError::internal(&file.path(), "baskets are unwritten while a tree is published"));
        }
        let copy = Self {
            new: self.new.clone(),
            forms: self.forms.clone(),
            branches: self.branches.clone(),
            cluster: self.cluster.clone(),
            waiting: Vec::new(),
            spare: self.spare.clone(),
            ..*self
        };
        Box::new(copy).finish(file)
    }

    fn finish(mut self: Box<Self>, file: &mut NewFile) -> Result<Filled> {
        self.end_cluster();
        self.write_waiting(file, &[])?;
        let path = file.path();
        let made = |(form, branch): (BranchForm, OpenBranch)| NewBranch {
            name: form.name,
            title: form.title,
            kind: form.kind,
            compress: form.setting.as_root(),
            baskets: branch.baskets,
            plain_bytes: branch.plain_bytes,
            stored_bytes: branch.stored_bytes,
            basket_size: form.basket_bytes as u64,
            count_max: branch.count_max,
        };
        let tree = NewTree {
            name: self.new.name.clone(),
            title: self.new.description.clone(),
            entries_count: self.entries_count,
            cluster_entries: self.cluster.size.unwrap_or(self.entries_count).max(1),
            branches: self.forms.into_iter().zip(self.branches).map(made).collect(),
        };
        let key = ObjectName {
            class_name: "TTree".to_string(),
            name: tree.name.clone(),
            title: tree.title.clone(),
            date: self.new.date,
            cycle: self.new.cycle,
        };
        let named = |error| ReadError::from_format(&path, &error);
        file.write_object(self.slot, &key, |key_size| tree.record(key_size).map_err(named))?;
        Ok(Filled { entries_count: self.entries_count, clusters_count: self.cluster.clusters_count })
    }

    fn add_columns(&mut self, file: &mut NewFile, fields: &[NamedColumn<'_>]) -> Result<()> {
        self.add_branches(file, fields)
    }
}
