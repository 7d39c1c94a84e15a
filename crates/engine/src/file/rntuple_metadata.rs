//! An RNTuple in a file: its schema, and its list of clusters, which is read when it is first needed.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use branchline_format::compress::Decompressor;
use branchline_format::error::{FormatError, Result as FormatResult};
use branchline_format::file::directory::Entry;
use branchline_format::file::read_object;
use branchline_format::ntuple::anchor::read_anchor;
use branchline_format::ntuple::cluster::FieldCluster;
use branchline_format::ntuple::envelope::{read_envelope, EnvelopeKind};
use branchline_format::ntuple::footer::{linked_sets_count, read_footer, ClusterGroup, Footer};
use branchline_format::ntuple::form::{standalone_form, Form};
use branchline_format::ntuple::names::{branches, Branch};
use branchline_format::ntuple::page_list::{read_page_list, Cluster, Page};
use branchline_format::ntuple::schema::{read_header, Field, Schema};
use branchline_format::objects::Classes;

use crate::error::{ReadError, Result};
use crate::file::metadata_reader::MetadataReader;
use crate::file::File;

/// An RNTuple whose header and footer have been read.
#[derive(Debug)]
pub(crate) struct Ntuple {
    path: String,
    description: String,
    pub(crate) schema: Schema,
    pub(crate) branches: Vec<Branch>,
    pub(crate) max_key_size: u64,
    /// Number of attribute sets that are linked to the RNTuple.
    pub(crate) linked_sets_count: usize,
    pub(crate) entries_count: u64,
    forms: Vec<OnceLock<FormatResult<Form>>>,
    groups: Vec<ClusterGroup>,
    pub(crate) header_checksum: u64,
    /// The classes of the RNTuple's streamed objects.
    classes: Arc<Classes>,
    clusters: OnceLock<Vec<Cluster>>,
    sizes: OnceLock<Vec<ColumnSizes>>,
}

/// Size of a column, summed over all clusters.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ColumnSizes {
    /// Number of bytes in the file.
    pub(crate) stored: u64,
    /// Number of bytes after decompression.
    pub(crate) plain: u64,
    /// Number of bytes after decoding.
    pub(crate) decoded: u64,
    /// Number of bytes needed to decompress the largest page.
    pub(crate) largest_page: u64,
    /// Compression setting of the column's first pages.
    pub(crate) compression: Option<u32>,
}

impl ColumnSizes {
    fn add(self, other: Self) -> Self {
        Self {
            stored: self.stored.saturating_add(other.stored),
            plain: self.plain.saturating_add(other.plain),
            decoded: self.decoded.saturating_add(other.decoded),
            largest_page: self.largest_page.max(other.largest_page),
            compression: self.compression.or(other.compression),
        }
    }
}

impl Ntuple {
    /// Reads the anchor, and then the header and the footer in one request.
    pub(crate) fn open(reader: &mut MetadataReader<'_>, entry: &Entry, classes: &Arc<Classes>) -> Result<Self> {
        let path = reader.path;
        let named = |error: FormatError| ReadError::from_format(path, &error.in_object(&entry.path));
        let mut decompressor = Decompressor::new();
        let plain = reader.until_known(|loaded| read_object(loaded, &entry.key, &mut decompressor))?;
        let anchor = read_anchor(&plain).map_err(named)?;
        reader.fetch([anchor.header.locator, anchor.footer.locator])?;
        let mut envelope = |link, kind| {
            reader.until_known(|loaded| read_envelope(loaded, link, kind, anchor.max_key_size, &mut decompressor))
        };
        let header = envelope(&anchor.header, EnvelopeKind::Header)?;
        let footer = envelope(&anchor.footer, EnvelopeKind::Footer)?;
        let known = read_header(&header).map_err(named)?;
        let description = known.description.clone();
        let Footer { schema, groups } = read_footer(&footer, &header, known).map_err(named)?;
        let classes = schema.classes(classes).map_err(named)?;
        let branches = branches(&schema);
        Ok(Self {
            path: entry.path.clone(),
            description,
            forms: branches.iter().map(|_| OnceLock::new()).collect(),
            schema,
            branches,
            max_key_size: anchor.max_key_size,
            linked_sets_count: linked_sets_count(&footer),
            entries_count: groups.last().map_or(0, |group| group.first_entry + group.entries_count),
            groups,
            header_checksum: header.checksum,
            classes,
            clusters: OnceLock::new(),
            sizes: OnceLock::new(),
        })
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn description(&self) -> &str {
        &self.description
    }

    pub(crate) fn field(&self, branch: usize) -> &Field {
        &self.schema.fields[self.branches[branch].field]
    }

    /// Returns the form of a branch's entries, or the reason why they cannot be read.
    pub(crate) fn form(&self, branch: usize) -> std::result::Result<&Form, &FormatError> {
        let form = || standalone_form(&self.schema, &self.classes, self.branches[branch].field);
        self.forms[branch].get_or_init(form).as_ref()
    }

    /// Returns the clusters in entry order. The first call reads the page lists, in one request.
    pub(crate) fn clusters(&self, file: &File) -> Result<&[Cluster]> {
        if let Some(clusters) = self.clusters.get() {
            return Ok(clusters);
        }
        let mut reader = file.metadata_reader();
        reader.fetch(self.groups.iter().map(|group| group.page_list.locator))?;
        let mut decompressor = Decompressor::new();
        let mut clusters = Vec::new();
        for group in &self.groups {
            let (link, key_size) = (&group.page_list, self.max_key_size);
            let envelope = reader.until_known(|loaded| {
                read_envelope(loaded, link, EnvelopeKind::PageList, key_size, &mut decompressor)
            })?;
            let read = read_page_list(envelope, group, self.header_checksum);
            clusters.extend(read.map_err(|error| ReadError::from_format(file.path(), &error.in_object(&self.path)))?);
        }
        clusters.retain(|cluster| cluster.entries_count() > 0);
        clusters.sort_by_key(|cluster| cluster.entries.start);
        Ok(self.clusters.get_or_init(|| clusters))
    }

    /// Returns the entry range of a cluster, or an empty range if the page lists cannot be read.
    pub(crate) fn cluster_entries(&self, file: &File, cluster: usize) -> Range<u64> {
        let cluster = self.clusters(file).ok().and_then(|clusters| clusters.get(cluster));
        cluster.map_or(0..0, |cluster| cluster.entries.clone())
    }

    /// Returns the indices of the clusters that overlap an entry range. If no cluster contains an entry of the range,
    /// the error is the first such entry.
    pub(crate) fn clusters_of(
        &self,
        file: &File,
        entries: &Range<u64>,
    ) -> Result<std::result::Result<Range<usize>, u64>> {
        let clusters = self.clusters(file)?;
        let first = clusters.partition_point(|cluster| cluster.entries.end <= entries.start);
        let last = clusters.partition_point(|cluster| cluster.entries.start < entries.end).max(first);
        let mut next = entries.start;
        for (index, cluster) in clusters[first..last].iter().enumerate() {
            // If two clusters overlapped, the entries in both would be returned twice.
            if cluster.entries.start > next || (index > 0 && cluster.entries.start < next) {
                return Ok(Err(next));
            }
            next = cluster.entries.end;
        }
        Ok(if next < entries.end { Err(next) } else { Ok(first..last) })
    }

    /// Returns the size of every column in the file. Returns an empty list if the page lists cannot be read, because
    /// reading the entries reports that error.
    fn sizes(&self, file: &File) -> &[ColumnSizes] {
        if let Some(sizes) = self.sizes.get() {
            return sizes;
        }
        let Ok(clusters) = self.clusters(file) else { return &[] };
        self.sizes.get_or_init(|| {
            let mut sizes = vec![ColumnSizes::default(); self.schema.columns.len()];
            for cluster in clusters {
                for (number, sum) in sizes.iter_mut().enumerate().take(cluster.columns_count()) {
                    *sum = sum.add(self.sizes_in(cluster, number));
                }
            }
            sizes
        })
    }

    fn sizes_in(&self, cluster: &Cluster, number: usize) -> ColumnSizes {
        let (Ok(encoding), Ok(Some(pages))) = (&self.schema.columns[number].encoding, cluster.pages(number)) else {
            return ColumnSizes::default();
        };
        let of_page = |page: &Page| ColumnSizes {
            stored: page.locator.size,
            plain: encoding.page_size(page.elements_count),
            decoded: page.elements_count * encoding.decoded_size() as u64,
            largest_page: pages.scratch_size(encoding, page),
            compression: pages.compression,
        };
        pages.pages.iter().map(of_page).fold(ColumnSizes::default(), ColumnSizes::add)
    }

    /// Returns the total size of these branches in the file. A column that several branches use is counted for each of
    /// them.
    pub(crate) fn branch_sizes(&self, file: &File, branches: &[usize]) -> ColumnSizes {
        let sizes = self.sizes(file);
        let mut sum = ColumnSizes::default();
        for form in branches.iter().filter_map(|branch| self.form(*branch).ok()) {
            form.each_column(&mut |column| {
                sum = sum.add(sizes.get(column).copied().unwrap_or_default());
            });
        }
        sum
    }

    /// Returns the columns that a branch needs from a cluster.
    pub(crate) fn field_cluster(&self, file: &File, branch: usize, cluster: usize) -> Result<FieldCluster> {
        let named = |error: FormatError| {
            let object = format!("{}, field {}, cluster {cluster}", self.path, self.branches[branch].path);
            ReadError::from_format(file.path(), &error.in_object(object))
        };
        let form = self.form(branch).map_err(|error| named(error.clone()))?;
        FieldCluster::new(form, &self.clusters(file)?[cluster]).map_err(named)
    }
}
