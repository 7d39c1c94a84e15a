//! The slow kind of RNTuple merge: elements are repacked into new pages, so that clusters and pages have the requested
//! sizes. Fields and column types do not change.

use std::ops::Range;

use branchline_format::error::FormatError;
use branchline_format::ntuple::encoding::Switch;
use branchline_format::ntuple::page_list::Cluster;
use branchline_format::ntuple::schema::Schema;
use branchline_format::ntuple::write::elements::{element_size, push_switches, switches as switches_of};
use branchline_format::ntuple::write::walk::{element_ranges, Elements};

use crate::error::{ReadError, Result};
use crate::write::output::Output;
use crate::write::pages::cluster::ClusterColumns;
use crate::write::pages::elements::{converted, ClusterReader};
use crate::write::pages::input::InputNtuple;
use crate::write::pages::join::ColumnMap;
use crate::write::pages::metadata::WrittenCluster;
use crate::write::progress::Progress;
use crate::write::request::selection::Selection;

/// A cluster that is being filled, possibly from several inputs.
#[derive(Clone)]
pub(crate) struct OpenCluster {
    pub(crate) columns: ClusterColumns,
    /// Current number of entries in the cluster.
    pub(crate) entries_count: u64,
    /// The columns that are present in the cluster.
    active: Vec<usize>,
}

impl OpenCluster {
    pub(crate) fn new(columns: ClusterColumns) -> Self {
        Self { columns, entries_count: 0, active: Vec::new() }
    }

    /// Writes the cluster, unless it is empty.
    pub(crate) fn close(&mut self, output: &mut Output, date: u32) -> Result<Option<WrittenCluster>> {
        if self.entries_count == 0 {
            return Ok(None);
        }
        let entries_count = std::mem::take(&mut self.entries_count);
        self.active.clear();
        self.columns.close(output, date, entries_count).map(Some)
    }
}

/// Rewrites the elements of an input.
pub(crate) struct Refill<'a> {
    pub(crate) input: &'a InputNtuple,
    pub(crate) map: &'a ColumnMap,
    /// The schema of the output.
    pub(crate) schema: &'a Schema,
    /// Number of entries in a cluster; None to limit clusters by their size in bytes.
    pub(crate) cluster_entries: Option<u64>,
    pub(crate) cluster_bytes: u64,
    /// The selected entries; None if all entries are selected.
    pub(crate) selection: Option<&'a Selection>,
    /// Number of bytes of pages to read at a time.
    pub(crate) bundle_bytes: u64,
}

impl Refill<'_> {
    /// Adds all selected entries to the open cluster. Returns the clusters that became full. `progress` receives the
    /// number of bytes read.
    pub(crate) fn run(
        &self,
        open_cluster: &mut OpenCluster,
        output: &mut Output,
        date: u32,
        progress: &mut Progress<'_>,
    ) -> Result<Vec<WrittenCluster>> {
        let mut made = Vec::new();
        for cluster in self.input.clusters()? {
            let mut reader = ClusterReader::new(self.input, cluster, self.selection.is_none(), self.bundle_bytes)?;
            let active: Vec<usize> = reader.active.values().flatten().map(|column| self.map[*column]).collect();
            let active = sorted(active);
            if active != open_cluster.active {
                // A cluster stores each field in a single representation, so close the cluster if a representation
                // changes.
                made.extend(open_cluster.close(output, date)?);
                open_cluster.active = active;
            }
            let count = cluster.entries_count();
            let portion =
                (count.saturating_mul(crate::limits::FILLED_AT_ONCE_BYTES) / reader.plain_bytes().max(1)).max(1);
            let mut next = 0;
            loop {
                let kept = self.kept(cluster, next..count);
                if kept.is_empty() {
                    break;
                }
                let start = kept.start;
                let room = self.cluster_entries.map_or(portion, |most| most - open_cluster.entries_count);
                let end = (start + room.min(portion)).min(kept.end);
                self.add(&mut reader, start..end, open_cluster)
                    .map_err(|error| reader.unread.take().unwrap_or(error))?;
                open_cluster.entries_count += end - start;
                next = end;
                let is_full = match self.cluster_entries {
                    Some(most) => open_cluster.entries_count >= most,
                    None => open_cluster.columns.estimated_bytes() >= self.cluster_bytes,
                };
                if is_full {
                    let active = open_cluster.active.clone();
                    made.extend(open_cluster.close(output, date)?);
                    open_cluster.active = active;
                }
                progress(reader.take_read_bytes())?;
            }
        }
        Ok(made)
    }

    /// Returns the first run of selected entries in a range. Both ranges are relative to the start of the cluster.
    fn kept(&self, cluster: &Cluster, entries: Range<u64>) -> Range<u64> {
        let Some(selection) = self.selection else { return entries };
        let first = cluster.entries.start;
        let run = selection.first_run(first + entries.start..first + entries.end);
        run.start - first..run.end - first
    }

    /// Adds some entries of a cluster.
    fn add(&self, reader: &mut ClusterReader<'_>, entries: Range<u64>, open_cluster: &mut OpenCluster) -> Result<()> {
        let schema = &self.input.schema;
        let path = self.input.file.path();
        let named = |error: FormatError| ReadError::from_format(path, &error.in_object(self.input.ntuple.path()));
        let ranges = element_ranges(schema, entries, reader).map_err(named)?;
        // The number of elements in each column before any elements are added, which determines the positions of
        // alternatives.
        let before: Vec<u64> = self.map.iter().map(|column| open_cluster.columns.elements_count(*column)).collect();
        for (column, range) in ranges.iter().enumerate() {
            let Some(range) = range else { continue };
            let name = || schema.path_of(schema.columns[column].field);
            let mut elements = reader
                .elements(column, range.clone())
                .map_err(|error| ReadError::from_format(path, &error.in_object(format!("field {}", name()))))?;
            self.move_ends(reader, column, range, &mut elements, open_cluster).map_err(named)?;
            self.move_switches(column, &ranges, &before, &mut elements).map_err(named)?;
            let elements = self.converted(column, elements).map_err(named)?;
            open_cluster.columns.use_column(self.map[column]);
            open_cluster.columns.push(self.map[column], &elements, path)?;
        }
        reader.forget(&ranges);
        Ok(())
    }

    /// Makes collection offsets relative to the new cluster.
    fn move_ends(
        &self,
        reader: &mut ClusterReader<'_>,
        column: usize,
        range: &Range<u64>,
        elements: &mut [u8],
        open_cluster: &mut OpenCluster,
    ) -> std::result::Result<(), FormatError> {
        let encoding = self.input.schema.columns[column].encoding.as_ref();
        if !encoding.is_ok_and(|encoding| encoding.is_index()) {
            return Ok(());
        }
        let base = if range.start == 0 { 0 } else { reader.end(column, range.start - 1)? };
        let before = open_cluster.columns.last_end(self.map[column]);
        let mut last = before;
        for raw in elements.as_chunks_mut::<8>().0 {
            let end = u64::from_ne_bytes(*raw);
            let moved = end.checked_sub(base).map(|end| end + before).filter(|moved| *moved >= last);
            last =
                moved.ok_or_else(|| FormatError::damaged(0, format!("a collection ends before it begins ({end})")))?;
            *raw = last.to_ne_bytes();
        }
        open_cluster.columns.set_last_end(self.map[column], last);
        Ok(())
    }

    /// Makes the element indices of variants relative to the new cluster.
    fn move_switches(
        &self,
        column: usize,
        ranges: &[Option<Range<u64>>],
        before: &[u64],
        elements: &mut Vec<u8>,
    ) -> std::result::Result<(), FormatError> {
        let schema = &self.input.schema;
        let info = &schema.columns[column];
        let is_switch = info.encoding.as_ref().is_ok_and(|encoding| element_size(encoding) == 12);
        if !is_switch {
            return Ok(());
        }
        let field = &schema.fields[info.field];
        let starts: Vec<Option<(u64, u64)>> =
            field.children.iter().map(|child| self.place_of(*child, ranges, before)).collect();
        let moved: std::result::Result<Vec<Switch>, FormatError> = switches_of(elements)
            .map(|Switch { index, tag }| {
                let Some(place) = (tag as usize).checked_sub(1) else { return Ok(Switch::default()) };
                let start = starts.get(place).copied().flatten();
                let moved = start.and_then(|(old, new)| index.checked_sub(old)?.checked_add(new));
                let wrong = || FormatError::damaged(0, format!("a variant with tag {tag} and element {index}"));
                Ok(Switch { index: moved.ok_or_else(wrong)?, tag })
            })
            .collect();
        elements.clear();
        push_switches(&moved?, elements);
        Ok(())
    }

    /// Returns the index of a field's first element in this range, and the index that this element will have in the new
    /// cluster.
    fn place_of(&self, field: usize, ranges: &[Option<Range<u64>>], before: &[u64]) -> Option<(u64, u64)> {
        let schema = &self.input.schema;
        let (mut next, mut times) = (field, 1);
        // The number of elements in the first column below the field is a multiple of the field's number of elements.
        loop {
            let one = &schema.fields[next];
            times *= one.array_size.unwrap_or(1).max(1);
            let column = one.columns.iter().flatten().find(|column| ranges[**column].is_some());
            match (column, one.children.first()) {
                (Some(column), _) => {
                    let start = ranges[*column].as_ref()?.start;
                    return Some((start / times, before[*column] / times));
                }
                (None, Some(child)) => next = *child,
                (None, None) => return Some((0, 0)),
            }
        }
    }

    /// Converts elements to the representation of the corresponding column in the output.
    fn converted(&self, column: usize, elements: Vec<u8>) -> std::result::Result<Vec<u8>, FormatError> {
        let known = |column: &branchline_format::ntuple::schema::Column| {
            column.encoding.clone().map_err(FormatError::unsupported)
        };
        let own = known(&self.input.schema.columns[column])?;
        let new = known(&self.schema.columns[self.map[column]])?;
        converted(&own, &new, elements)
    }
}

fn sorted(mut columns: Vec<usize>) -> Vec<usize> {
    columns.sort_unstable();
    columns
}
