//! A TTree of a new file, made from columns of values.

use branchline_format::column::Column as Values;
use branchline_format::compress::Setting;
use branchline_format::error::Result as FormatResult;
use branchline_format::write::tree_record::{BranchKind, NewBranch, NewTree, WrittenBasket};
use branchline_format::write::{BasketContents, BasketForm, BasketFrame, BasketTools, NewBasket};

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::limits;
use crate::write::columns::branches::{branches_of, PlannedBranch, PlannedBranches, Source};
use crate::write::columns::entries::{append, longest, EntryBytes};
use crate::write::columns::writer::{refuse, Filled, NamedColumn, NewColumns, OpenColumns};
use crate::write::new_file::{NewFile, ObjectName, SlotId};
use crate::write::pages::ratio::CompressionRatio;
use crate::write::parallel::map_in_order;

/// A TTree that is being written.
pub(crate) struct OpenTree {
    new: NewColumns,
    slot: SlotId,
    branches: Vec<OpenBranch>,
    fields_count: usize,
    entries_count: u64,
    cluster: Cluster,
    waiting: Vec<(usize, EntryBytes)>,
    waiting_bytes: usize,
}

/// A branch that is being written.
struct OpenBranch {
    source: Source,
    frame: BasketFrame,
    open: EntryBytes,
    /// Entries in all baskets before the open one.
    entries_before: u64,
    made: NewBranch,
}

/// The cluster that is being filled.
#[derive(Default)]
struct Cluster {
    entries_count: u64,
    plain_bytes: u64,
    clusters_count: u64,
    /// Entries of each, once that is known.
    size: Option<u64>,
    /// Of all baskets so far.
    ratio: CompressionRatio,
}

impl OpenTree {
    /// Begins a tree with branches for values like these.
    pub(crate) fn begin(file: &mut NewFile, new: NewColumns, fields: &[NamedColumn]) -> Result<Self> {
        let PlannedBranches { branches, refused } = branches_of(fields);
        refuse(&file.path(), &refused)?;
        let slot = file.reserve(new.directory);
        let seek_directory = file.seek_of(new.directory);
        let open = |PlannedBranch { name: path, kind, source }: PlannedBranch| {
            let basket_size = new.layout.page_bytes;
            let frame = BasketFrame {
                branch: path.clone().into_bytes(),
                tree: new.name.clone().into_bytes(),
                date: new.date,
                seek_directory,
            };
            let (plain_bytes, stored_bytes, baskets) = (0, 0, Vec::new());
            let made = NewBranch { name: path, kind, baskets, plain_bytes, stored_bytes, basket_size, count_max: 0 };
            OpenBranch { source, frame, open: no_entries(&made.kind), entries_before: 0, made }
        };
        let branches = branches.into_iter().map(open).collect();
        let cluster = Cluster { size: new.layout.cluster_entries, ..Cluster::default() };
        let (waiting, waiting_bytes) = (Vec::new(), 0);
        let fields_count = fields.len();
        Ok(Self { new, slot, branches, fields_count, entries_count: 0, cluster, waiting, waiting_bytes })
    }

    fn end_cluster_if_full(&mut self, file: &mut NewFile) -> Result<()> {
        let cluster = &self.cluster;
        let open: u64 = self.branches.iter().map(|branch| branch.open.data.len() as u64).sum();
        let is_full = match cluster.size {
            Some(size) => cluster.entries_count >= size,
            None => {
                let left = open + self.waiting_bytes as u64;
                let expected = if cluster.ratio.plain_bytes == 0 { left } else { cluster.ratio.stored(left) };
                cluster.ratio.stored_bytes + expected >= self.new.layout.cluster_bytes
            }
        };
        if is_full {
            self.end_cluster(file)?;
        }
        Ok(())
    }

    /// All branches begin a new basket.
    fn end_cluster(&mut self, file: &mut NewFile) -> Result<()> {
        if self.cluster.entries_count == 0 {
            return Ok(());
        }
        for (number, branch) in self.branches.iter_mut().enumerate() {
            if branch.open.count > 0 {
                let full = std::mem::replace(&mut branch.open, no_entries(&branch.made.kind));
                self.waiting_bytes += full.data.len();
                self.waiting.push((number, full));
            }
        }
        self.write_waiting(file)?;
        // As ROOT does: the first cluster says how many entries all have (TTree::SetAutoFlush).
        self.cluster.size.get_or_insert(self.cluster.entries_count);
        self.entries_count += self.cluster.entries_count;
        self.cluster.clusters_count += 1;
        (self.cluster.entries_count, self.cluster.plain_bytes) = (0, 0);
        Ok(())
    }

    /// Makes baskets of what waits, on all cores, and writes them.
    fn write_waiting(&mut self, file: &mut NewFile) -> Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        self.waiting_bytes = 0;
        let (branches, setting) = (&self.branches, self.new.layout.setting);
        let made = map_in_order(&waiting, BasketTools::new, |tools, (number, entries)| {
            branches[*number].basket(entries, setting, tools)
        });
        let path = file.path();
        for ((number, entries), basket) in waiting.iter().zip(made) {
            let mut basket = basket.map_err(|error| ReadError::from_format(&path, &error))?;
            let branch = &mut self.branches[*number];
            let seek = file.end();
            basket.place(branch.made.baskets.len(), seek);
            file.output().write(&basket.record)?;
            let size = basket.record.len() as u64;
            branch.made.baskets.push(WrittenBasket { size, first_entry: branch.entries_before, seek });
            branch.entries_before += entries.count;
            branch.made.plain_bytes += basket.plain_size;
            branch.made.stored_bytes += size;
            self.cluster.ratio.stored_bytes += size;
            self.cluster.ratio.plain_bytes += basket.plain_size;
        }
        Ok(())
    }
}

impl OpenColumns for OpenTree {
    fn fill(&mut self, file: &mut NewFile, values: &[Values], count: usize) -> Result<()> {
        if values.len() != self.fields_count {
            let message = format!("values of {} fields are given for {}", values.len(), self.fields_count);
            return Err(ReadError::internal(&file.path(), &message));
        }
        let bytes: u64 = values.iter().map(|column| column.size_bytes() as u64).sum();
        let portion = (count as u64 * limits::FILLED_AT_ONCE_BYTES / bytes.max(1)).max(1);
        let mut start = 0;
        while start < count {
            let room = self.cluster.size.map_or(portion, |most| most - self.cluster.entries_count);
            let end = start + room.min(portion).min((count - start) as u64) as usize;
            let path = file.path();
            for number in 0..self.branches.len() {
                let branch = &mut self.branches[number];
                let before = branch.open.data.len();
                append(
                    &branch.source,
                    &branch.made.kind,
                    values,
                    start..end,
                    &mut branch.open,
                    &mut |open| {
                        let full = std::mem::replace(open, no_entries(&branch.made.kind));
                        self.waiting_bytes += full.data.len();
                        self.waiting.push((number, full));
                    },
                    self.new.layout.page_bytes as usize,
                )
                .and_then(|()| match branch.made.kind {
                    BranchKind::Counter => longest(&branch.source, values, start..end),
                    _ => Ok(0),
                })
                .map(|count| branch.made.count_max = branch.made.count_max.max(count))
                .map_err(|reason| {
                    let message = format!("branch {}: {reason}", branch.made.name);
                    ReadError::new(ReadErrorKind::Unsupported, &path, message)
                        .with_hint("inputs must have the same branches of the same types")
                })?;
                self.cluster.plain_bytes += (branch.open.data.len().saturating_sub(before)) as u64;
            }
            self.cluster.entries_count += (end - start) as u64;
            start = end;
            if self.waiting_bytes > limits::PAGES_AT_ONCE_BYTES {
                self.write_waiting(file)?;
            }
            self.end_cluster_if_full(file)?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, file: &mut NewFile) -> Result<Filled> {
        self.end_cluster(file)?;
        let path = file.path();
        let tree = NewTree {
            name: self.new.name.clone(),
            title: self.new.description.clone(),
            entries_count: self.entries_count,
            cluster_entries: self.cluster.size.unwrap_or(1),
            compress: self.new.layout.setting.as_root(),
            branches: self.branches.into_iter().map(|branch| branch.made).collect(),
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
}

impl OpenBranch {
    fn basket(&self, entries: &EntryBytes, setting: Setting, tools: &mut BasketTools) -> FormatResult<NewBasket> {
        let key_size = u32::from(self.frame.key_size()?);
        let starts: Option<Vec<u32>> =
            entries.starts.as_ref().map(|starts| starts.iter().map(|start| key_size + start).collect());
        let bytes_max = self.made.basket_size as usize;
        let form = BasketForm { stores_offsets: starts.is_some(), bytes_max, setting };
        let contents = BasketContents {
            data: &mut entries.data.clone(),
            starts: starts.as_deref().unwrap_or_default(),
            displacements: None,
            entries_count: entries.count,
            process_ids_before: 0,
        };
        self.frame.record(&form, contents, tools)
    }
}

fn no_entries(kind: &BranchKind) -> EntryBytes {
    EntryBytes { data: Vec::new(), starts: (!kind.is_fixed()).then(Vec::new), count: 0 }
}
