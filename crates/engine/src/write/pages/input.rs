//! An RNTuple to merge, with its checked schema and clusters.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use branchline_format::file::directory::Entry;
use branchline_format::ntuple::envelope::{blob, Locator};
use branchline_format::ntuple::page_list::{Cluster, ColumnPages, Page};
use branchline_format::ntuple::schema::Schema;
use branchline_storage::ByteRange;
use bytes::Bytes;

use crate::error::{ReadError, ReadErrorKind, Result, COPY_AGAIN};
use crate::file::rntuple_metadata::Ntuple;
use crate::file::File;
use crate::limits;
use crate::write::pages::prune::Pruned;
use crate::write::pages::union::{Completed, NtupleUnion};
use crate::write::ranges::read_ranges;

/// An RNTuple of an input.
pub(crate) struct InputNtuple {
    pub(crate) file: Arc<File>,
    pub(crate) ntuple: Ntuple,
    /// The schema, reduced to the wanted fields and extended by the fields of a union.
    pub(crate) schema: Schema,
    /// For each column of the schema, the column in the file. None for columns of fields that the file lacks.
    columns: Vec<Option<usize>>,
    /// Names of the top-level fields that the file lacks. The fields are 0 or empty for all entries of the file.
    pub(crate) filled: Vec<String>,
    pub(crate) date: u32,
}

impl InputNtuple {
    /// Reads the header and the footer. `wanted` are paths of fields; None keeps all fields.
    pub(crate) fn open(file: &Arc<File>, entry: &Entry, wanted: Option<&HashSet<String>>) -> Result<Self> {
        let ntuple = Ntuple::open(&mut file.metadata_reader(), entry, file.whole_classes())?;
        let pruned = wanted.map(|wanted| Pruned::new(&ntuple.schema, &ntuple.branches, wanted));
        let Pruned { schema, columns } =
            pruned.unwrap_or_else(|| Ok(Pruned::whole(&ntuple.schema))).map_err(|what| {
                ReadError::new(ReadErrorKind::Unsupported, file.path(), format!("{}: {what}", ntuple.path()))
                    .with_hint("keep or leave out the whole parent field")
            })?;
        let columns = columns.into_iter().map(Some).collect();
        Ok(Self { file: Arc::clone(file), ntuple, schema, columns, filled: Vec::new(), date: entry.key.date })
    }

    /// Returns the RNTuple, extended by all fields of a union that it lacks.
    pub(crate) fn united(mut self, union: &NtupleUnion) -> Result<Self> {
        let path = self.file.path();
        if union.unknown(&self.schema).is_some() {
            // The union was computed from all files, so an unknown field means that the file has changed since then.
            let error = ReadError::new(ReadErrorKind::BadFile, path, "the file changed during the merge");
            return Err(error.with_hint("merge again when no process is writing it"));
        }
        let Completed { schema, added } = union.complete(&self.schema).map_err(|what| {
            ReadError::new(ReadErrorKind::Unsupported, path, format!("{}: {what}", self.ntuple.path()))
                .with_hint("merge the files that have it separately")
        })?;
        if self.ntuple.entries_count > 0 {
            self.filled = added;
        }
        self.columns.resize(schema.columns.len(), None);
        self.schema = schema;
        Ok(self)
    }

    /// The names of the top-level fields.
    pub(crate) fn names_at_top(&self) -> impl Iterator<Item = &str> {
        self.schema.top.iter().map(|field| self.schema.fields[*field].name.as_str())
    }

    /// Returns the clusters, after checking that each entry is in exactly one cluster.
    pub(crate) fn clusters(&self) -> Result<&[Cluster]> {
        let count = self.ntuple.entries_count;
        match self.ntuple.clusters_of(&self.file, &(0..count))? {
            Ok(_) => self.ntuple.clusters(&self.file),
            Err(entry) => Err(self.damaged(format!("entry {entry} of {count} is not in exactly one cluster"))),
        }
    }

    /// Returns the pages of all wanted columns in a cluster. None for a column that the cluster does not have.
    pub(crate) fn pages(&self, cluster: &Cluster) -> Result<Vec<Option<ColumnPages>>> {
        let of = |column: &Option<usize>| match column {
            Some(column) => cluster.pages(*column).map_err(|error| ReadError::from_format(self.file.path(), &error)),
            None => Ok(None),
        };
        self.columns.iter().map(of).collect()
    }

    /// Returns the columns of the representation that a field uses in a cluster with these pages.
    pub(crate) fn active<'a>(
        &self,
        representations: &'a [Vec<usize>],
        pages: &[Option<ColumnPages>],
    ) -> Option<&'a Vec<usize>> {
        let is_there = |columns: &&&Vec<usize>| {
            columns.first().is_some_and(|first| pages[*first].as_ref().is_some_and(|pages| !pages.is_suppressed))
        };
        // The columns were added after the cluster was written.
        let is_later = |columns: &&Vec<usize>| {
            columns
                .first()
                .is_some_and(|first| pages[*first].is_none() && !self.schema.columns[*first].suppressed_before)
        };
        representations.iter().find(|one| is_there(&one)).or_else(|| representations.iter().find(is_later))
    }

    /// Returns the number of zeros that precede the elements of each column, because the column was added later.
    pub(crate) fn zeros_before(&self, cluster: &Cluster, pages: &[Option<ColumnPages>]) -> Result<HashMap<usize, u64>> {
        let fixed = fixed_counts(&self.schema, cluster.entries_count());
        let mut zeros = HashMap::new();
        for field in self.schema.fields.iter().filter(|field| field.source.is_none()) {
            let first = self.active(&field.columns, pages).and_then(|columns| columns.first());
            let Some((column, expected)) = first.and_then(|first| Some((*first, *fixed.get(first)?))) else { continue };
            let there = pages[column].as_ref().map_or(0, ColumnPages::elements_count);
            zeros.insert(column, self.missing_before(column, there, expected)?);
        }
        Ok(zeros)
    }

    /// Returns how many elements a cluster lacks because their column was added later. The cluster has `there` of
    /// `expected` elements.
    pub(crate) fn missing_before(&self, column: usize, there: u64, expected: u64) -> Result<u64> {
        let schema = &self.schema;
        let info = &schema.columns[column];
        let Some(missing) = expected.checked_sub(there) else {
            let path = schema.path_of(info.field);
            return Err(self.damaged(format!("field {path} has {there} elements in a cluster of {expected}")));
        };
        if missing == 0 {
            return Ok(0);
        }
        let bits = info.encoding.as_ref().map_or(1, |encoding| encoding.bits as u64);
        // Each page of zeros is stored only once, so each use only takes memory for its location.
        let pages_max = self.file.size_bytes().saturating_mul(limits::ZEROS_FACTOR_MAX) / size_of::<Page>() as u64;
        let most = pages_max.saturating_mul(8 * limits::PAGE_BYTES);
        let path = || schema.path_of(info.field);
        if !(info.first_element > 0 || info.suppressed_before) {
            return Err(self.damaged(format!("field {} has {there} elements in a cluster of {expected}", path())));
        }
        if missing.saturating_mul(bits) > most {
            let what =
                format!("field {} lacks {missing} elements, which is implausible for the size of the file", path());
            return Err(self.damaged(what));
        }
        Ok(missing)
    }

    /// Returns the stored bytes of pages, including their checksums. Pages that are split over several keys are joined.
    pub(crate) fn read_pages(&self, pages: &[Page]) -> Result<Vec<Bytes>> {
        let max_key_size = self.ntuple.max_key_size;
        let is_cut = |page: &Page| max_key_size > 0 && page.stored().size > max_key_size;
        let range = |page: &Page| {
            let Locator { offset, size } = page.stored();
            ByteRange::new(offset, if is_cut(page) { 0 } else { size })
        };
        let ranges: Vec<ByteRange> = pages.iter().map(range).collect();
        let mut stored = self.read(&ranges)?;
        for (page, bytes) in pages.iter().zip(&mut stored).filter(|(page, _)| is_cut(page)) {
            let joined = self.file.metadata_reader().until_known(|loaded| {
                blob(|offset, size| loaded.get(offset, size), page.stored(), max_key_size, loaded.file_size())
                    .map(|bytes| bytes.into_owned())
            })?;
            *bytes = joined.into();
        }
        Ok(stored)
    }

    /// Creates the error for damaged metadata.
    pub(crate) fn damaged(&self, message: String) -> ReadError {
        let message = format!("{}: {message}", self.ntuple.path());
        ReadError::new(ReadErrorKind::BadFile, self.file.path(), message).with_hint(COPY_AGAIN)
    }

    /// Returns the stored bytes of these ranges of the file. Nearby ranges are coalesced.
    fn read(&self, wanted: &[ByteRange]) -> Result<Vec<Bytes>> {
        let size = self.file.size_bytes();
        if let Some(wrong) = wanted.iter().find(|range| range.end().is_none_or(|end| end > size)) {
            let message =
                format!("a page of {} bytes at offset {} exceeds the file size {size}", wrong.length, wrong.offset);
            return Err(self.damaged(message));
        }
        read_ranges(&self.file, wanted)
    }
}

/// Returns the number of elements in the columns of a cluster. Includes only columns outside collections, because their
/// number of elements follows from the number of entries.
pub(crate) fn fixed_counts(schema: &Schema, entries_count: u64) -> HashMap<usize, u64> {
    let mut counts = HashMap::new();
    let mut next: Vec<(usize, u64)> = schema.top.iter().map(|field| (*field, entries_count)).collect();
    while let Some((number, count)) = next.pop() {
        let field = &schema.fields[number];
        if field.source.is_some() {
            continue;
        }
        let count = count.saturating_mul(field.array_size.unwrap_or(1));
        for column in field.columns.iter().filter_map(|columns| columns.first()) {
            counts.insert(*column, count);
        }
        let has_ends = field.columns.iter().any(|columns| !columns.is_empty()) && !field.children.is_empty();
        if !has_ends {
            next.extend(field.children.iter().map(|child| (*child, count)));
        }
    }
    counts
}
