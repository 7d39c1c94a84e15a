//! Merges the RNTuples at one path. Their pages are copied or refilled, and followed by the header, the page lists and
//! the footer.

mod input;

use std::sync::Arc;

use branchline_format::compress::Setting;
use branchline_format::file::directory::Entry;
use branchline_format::file::TKey;
use branchline_format::ntuple::anchor;
use branchline_format::ntuple::envelope::Locator;
use branchline_format::ntuple::page_list::Page;
use branchline_format::ntuple::schema::Schema;
use branchline_format::ntuple::write::page::checked;
use bytes::Bytes;
use xxhash_rust::xxh3::Xxh3;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::file::File;
use crate::write::errors::{differs, other_leftovers};
use crate::write::merged::filled::FilledColumns;
use crate::write::merged::Merged;
use crate::write::new_file::{ObjectName, SlotId};
use crate::write::output::Output;
use crate::write::pages::cluster::{ClusterColumns, Layout};
use crate::write::pages::copy::PageCopy;
use crate::write::pages::join::{join, of_first, ColumnMap, Difference};
use crate::write::pages::metadata::{checksum_of, write_metadata, Labels, WrittenCluster};
use crate::write::pages::refill::{OpenCluster, Refill};
use crate::write::placed::Placed;
use crate::write::products::holdings::{Holdings, Row};
use crate::write::products::kind::{Content, Opening, Product, Remarks};
use crate::write::products::ntuple::input::NtupleInput;
use crate::write::products::output::{MergeOutput, Transfer};
use crate::write::products::source::Source;
use crate::write::progress::Check;
use crate::write::request::Branches;

const OTHER_FIELDS: &str =
    "fill missing fields with --fill-missing-branches (fill_missing_branches=True), or merge these files separately";
const OTHER_KIND: &str = "fields with the same name must be the same in all files; merge these files separately";

/// An RNTuple in an output.
pub(crate) struct MergedNtuple {
    slot: SlotId,
    /// The path of the first input file.
    first_path: String,
    labels: Labels,
    /// The compression of the first input's pages.
    page_setting: Setting,
    schema: Schema,
    clusters: Vec<WrittenCluster>,
    entries_count: u64,
    /// The cluster that is not full yet.
    open_cluster: Option<OpenCluster>,
    filled: FilledColumns,
}

/// The data that were written for an input.
pub(crate) struct NtuplePart {
    /// The schema of the output, extended by everything that the input needs.
    schema: Schema,
    clusters: Vec<WrittenCluster>,
    entries_count: u64,
    open_cluster: Option<OpenCluster>,
}

/// The schema of the output, extended by everything that an input needs, with the column map of the input.
struct JoinedSchema {
    schema: Schema,
    map: ColumnMap,
}

impl Content for NtupleInput {
    fn is_of(_file: &File, key: &TKey) -> bool {
        key.class_name == anchor::CLASS_NAME
    }

    fn keeps_cycles(_file: &File, _key: &TKey) -> bool {
        false
    }

    fn open(opening: &mut Opening<'_, '_>, entry: &Entry) -> Result<Self> {
        let union = opening.known_trees.unions.ntuples.get(&entry.path);
        Self::open(opening.file, entry, opening.branches.get(&entry.path), union.map(Arc::as_ref))
    }

    fn size_bytes(&self, _key: &TKey) -> u64 {
        self.page_bytes
    }

    fn memory_bytes(&self) -> u64 {
        self.held_bytes
    }

    fn hash(&self, digest: &mut Xxh3) {
        digest.update(&self.input.ntuple.header_checksum.to_be_bytes());
        // The union of the fields affects how this RNTuple is merged.
        digest.update(&self.union_digest.to_be_bytes());
    }

    fn remarks(&self) -> Remarks {
        let count = self.input.ntuple.linked_sets_count;
        let left_out = || format!("{count} attribute sets of the RNTuple {}", self.input.ntuple.path());
        Remarks { left_out: (count > 0).then(left_out), note: None }
    }

    fn hold(self, source: &Source<'_>, _older: bool, holdings: &mut Holdings, check: &mut Check<'_>) -> Result<()> {
        let table = holdings.tree(source.path());
        for field in self.digests(check)? {
            let rows = table.branches.entry(field.name).or_default();
            rows.extend(field.pages.into_iter().map(|page| Row {
                entry_start: table.entries_count + page.first_entry,
                entries_count: page.elements_count,
                digest: page.digest,
            }));
        }
        let entries_count = self.entries_count();
        table.filled.add(self.input.filled.iter().map(|field| (field.as_str(), entries_count)));
        table.entries_count += entries_count;
        Ok(())
    }
}

impl Product for MergedNtuple {
    type Content = NtupleInput;
    type Written = NtuplePart;

    const HAS_VERSIONS: bool = false;

    fn prepare(_content: &mut NtupleInput, _source: &Source<'_>, _branches: &Branches) -> Result<()> {
        Ok(())
    }

    fn fit(&self, content: &mut NtupleInput, _source: &Source<'_>) -> Result<()> {
        joined(Some(self), content).map(|_| ())
    }

    fn write(
        known: Option<&Self>,
        content: &NtupleInput,
        source: &Source<'_>,
        output: &mut MergeOutput,
        transfer: &mut Transfer<'_, '_>,
    ) -> Result<NtuplePart> {
        output.settle()?;
        let before = output.file.end();
        let layout = transfer.request.layout_of(source.path());
        let layout = layout.map(|layout| content.layout(layout, output.codec));
        let part = match layout {
            Some(layout) => refill(known, content, layout, source, output, transfer)?,
            None => {
                let part = copy(known, content, output, transfer)?;
                transfer.placed.push(part.places(output.file.end() - before));
                part
            }
        };
        Ok(part)
    }

    /// Starts with the first RNTuple. The header, footer and page lists get the codec of the merge, or else the setting
    /// of the first file.
    fn begin(content: NtupleInput, part: NtuplePart, source: &Source<'_>, output: &mut MergeOutput) -> Result<Self> {
        let (file, ntuple) = (source.file, &content.input.ntuple);
        let setting = output.codec.or_else(|| Setting::of_root(i64::from(file.compress()))).unwrap_or(Setting::NONE);
        let (name, description) = (source.key().name.clone(), ntuple.description().to_string());
        let mut own = Self {
            slot: output.file.reserve(source.directory(output)),
            first_path: source.file_path().to_string(),
            labels: Labels { name, description, date: source.key().date, setting },
            page_setting: content.page_setting,
            schema: Schema::default(),
            clusters: Vec::new(),
            entries_count: 0,
            open_cluster: None,
            filled: FilledColumns::default(),
        };
        own.add_part(part, &content);
        Ok(own)
    }

    fn add(&mut self, content: NtupleInput, part: NtuplePart, _: &Source<'_>, _: &mut MergeOutput) -> Result<()> {
        self.add_part(part, &content);
        Ok(())
    }

    fn finish(&mut self, path: &str, name: &ObjectName, output: &mut MergeOutput, merged: &mut Merged) -> Result<()> {
        let anchor = self.write_metadata(output.file.output())?;
        output.file.write_object(self.slot, name, |_| Ok(anchor))?;
        // A page that several columns share is counted for each of them.
        let pages = self.clusters.iter().flat_map(|cluster| &cluster.columns).flat_map(|column| &column.pages);
        let (count, bytes) = pages.fold((0, 0), |(count, bytes), page| (count + 1, bytes + page.stored().size));
        merged.add_tree(self.entries_count, count, bytes);
        merged.filled.extend(self.filled.of_tree(path));
        Ok(())
    }

    fn verify(&self, path: &str, found: Option<&NtupleInput>, file: &File, check: &mut Check<'_>) -> Result<()> {
        let differs = |message: String| Err(differs(file.path(), &message));
        let Some(found) = found else { return differs(format!("RNTuple {path} is missing")) };
        match self.difference(found, check)? {
            Some(what) => differs(format!("RNTuple {path} has {what}")),
            None => Ok(()),
        }
    }
}

impl MergedNtuple {
    fn add_part(&mut self, part: NtuplePart, content: &NtupleInput) {
        self.filled.add(content.input.filled.iter().map(|field| (field.as_str(), content.entries_count())));
        self.schema = part.schema;
        self.entries_count += part.entries_count;
        self.clusters.extend(part.clusters);
        self.open_cluster = part.open_cluster;
    }

    /// Writes the open cluster, and then the metadata. Returns the bytes of the anchor.
    fn write_metadata(&mut self, output: &mut Output) -> Result<Vec<u8>> {
        if let Some(mut open_cluster) = self.open_cluster.take() {
            self.clusters.extend(open_cluster.close(output, self.labels.date)?);
        }
        write_metadata(output, &self.labels, &self.schema, &self.clusters)
    }

    /// Compares the written pages with an RNTuple that was read back from disk. Returns the first difference.
    fn difference(&self, found: &NtupleInput, check: &mut Check<'_>) -> Result<Option<String>> {
        joined(Some(self), found)?;
        let input = &found.input;
        if input.ntuple.entries_count != self.entries_count {
            return Ok(Some(format!("{} entries, not {}", input.ntuple.entries_count, self.entries_count)));
        }
        let clusters = input.clusters()?;
        let written: Vec<&WrittenCluster> = self.clusters.iter().filter(|one| one.entries_count > 0).collect();
        if clusters.len() != written.len() {
            return Ok(Some(format!("{} clusters, not {}", clusters.len(), written.len())));
        }
        for (number, (cluster, written)) in clusters.iter().zip(written).enumerate() {
            for (column, pages) in input.pages(cluster)?.into_iter().enumerate() {
                check()?;
                let pages = pages.unwrap_or_default().pages;
                let expected = written.columns.get(column).map_or(&[][..], |column| &column.pages);
                let checksums = written.checksums.get(column).map_or(&[][..], Vec::as_slice);
                let stored = input.read_pages(&pages)?;
                let checksum =
                    |(stored, page): (&Bytes, &Page)| checked(stored, page).map_or(0, |_| checksum_of(stored));
                if pages != expected || !stored.iter().zip(&pages).map(checksum).eq(checksums.iter().copied()) {
                    let path = input.schema.path_of(input.schema.columns[column].field);
                    return Ok(Some(format!("different pages of field {path} in cluster {number}")));
                }
            }
        }
        Ok(None)
    }
}

impl NtuplePart {
    /// Returns the locations of the pages as the journal records them. The first element only holds `bytes`, the number
    /// of bytes that were written for all pages.
    fn places(&self, bytes: u64) -> Vec<Placed> {
        let whole = Placed { size: bytes, ..Placed::default() };
        let columns = self.clusters.iter().flat_map(|cluster| cluster.columns.iter().zip(&cluster.checksums));
        let pages = columns.flat_map(|(column, checksums)| column.pages.iter().zip(checksums));
        let place = |(page, checksum): (&Page, &u64)| {
            let Locator { offset, size } = page.locator;
            Placed { first_entry: 0, seek: offset, size, plain_size: page.elements_count, digest: *checksum }
        };
        std::iter::once(whole).chain(pages.map(place)).collect()
    }
}

/// Joins the schemas of an output and an input. Returns an error if a field of the input differs from the field in
/// previous inputs.
fn joined(known: Option<&MergedNtuple>, content: &NtupleInput) -> Result<JoinedSchema> {
    let own = &content.input.schema;
    let Some(known) = known else {
        return Ok(JoinedSchema { schema: of_first(own), map: (0..own.columns.len()).collect() });
    };
    let mut schema = known.schema.clone();
    let map = join(&mut schema, own).map_err(|Difference { what, is_lack }| {
        let message = format!("{}: {what}, unlike {}", content.input.ntuple.path(), known.first_path);
        let hint = if is_lack { OTHER_FIELDS } else { OTHER_KIND };
        ReadError::new(ReadErrorKind::Unsupported, content.input.file.path(), message).with_hint(hint)
    })?;
    Ok(JoinedSchema { schema, map })
}

/// Copies the pages of an input to the output, unless a killed merge already wrote them.
fn copy(
    known: Option<&MergedNtuple>,
    content: &NtupleInput,
    output: &mut MergeOutput,
    transfer: &mut Transfer<'_, '_>,
) -> Result<NtuplePart> {
    let JoinedSchema { schema, map } = joined(known, content)?;
    let copy = PageCopy {
        input: &content.input,
        map: &map,
        schema: &schema,
        order: transfer.request.order,
        bundle_bytes: transfer.request.limits.bundle_bytes(),
        setting: output.codec.or_else(|| known.map(|known| known.page_setting)).unwrap_or(content.page_setting),
    };
    let output = output.file.output();
    let before = output.end();
    let clusters = match &mut transfer.written_before {
        None => copy.run(output, content.input.date, transfer.progress)?,
        Some(written) => {
            let clusters = copy.skip_written(&written.next().unwrap_or_default(), output)?;
            (transfer.progress)(output.end() - before)?;
            clusters.ok_or_else(|| other_leftovers(output.path()))?
        }
    };
    Ok(NtuplePart { schema, clusters, entries_count: content.entries_count(), open_cluster: None })
}

/// Repacks the elements of an input into new pages and clusters. The last cluster stays open.
fn refill(
    known: Option<&MergedNtuple>,
    content: &NtupleInput,
    layout: Layout,
    source: &Source<'_>,
    output: &mut MergeOutput,
    transfer: &mut Transfer<'_, '_>,
) -> Result<NtuplePart> {
    let JoinedSchema { schema, map } = joined(known, content)?;
    let request = transfer.request;
    let selection = request.selection_of(source.file_path(), source.path(), content.entries_count())?;
    let entries_count = content.entries_count();
    let entries_count = selection.as_ref().map_or(entries_count, |selection| selection.count(0..entries_count));
    let open = known.and_then(|known| known.open_cluster.clone());
    let mut open_cluster = open.unwrap_or_else(|| OpenCluster::new(ClusterColumns::new(&schema, layout)));
    open_cluster.columns.extend(&schema);
    let refill = Refill {
        input: &content.input,
        map: &map,
        schema: &schema,
        cluster_entries: layout.cluster_entries,
        cluster_bytes: layout.cluster_bytes,
        selection: selection.as_deref(),
        bundle_bytes: request.limits.bundle_bytes(),
    };
    let clusters = refill.run(&mut open_cluster, output.file.output(), content.input.date, transfer.progress)?;
    Ok(NtuplePart { schema, clusters, entries_count, open_cluster: Some(open_cluster) })
}
