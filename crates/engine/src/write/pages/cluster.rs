//! A cluster that is being written. Elements are added column by column and fill pages, which all cores compress. When
//! the cluster is closed, its pages are written column by column. Pages that can be stored exactly as given are written
//! at once, without a copy. If pages that are in memory at the same time are identical, they are stored only once.

use std::borrow::Cow;

use branchline_format::compress::{Compressor, Setting};
use branchline_format::error::Result as FormatResult;
use branchline_format::ntuple::encoding::Encoding;
use branchline_format::ntuple::envelope::Locator;
use branchline_format::ntuple::page_list::{ColumnPages, Page, PAGE_CHECKSUM_SIZE};
use branchline_format::ntuple::schema::Schema;
use branchline_format::ntuple::write::elements::{element_size, encode_into, is_native};
use branchline_format::ntuple::write::page::{self, seal_over};

use crate::error::{ReadError, Result};
use crate::limits;
use crate::write::output::Output;
use crate::write::pages::blob::OpenBlob;
use crate::write::pages::metadata::{checksum_of, write_blob, WrittenCluster};
use crate::write::pages::ratio::CompressionRatio;
use crate::write::pages::same::firsts_of;
use crate::write::parallel::map_in_order;
use crate::write::spare::{Room, Rooms, Spare};

/// The layout of values in clusters and pages.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// The codec and level for pages.
    pub setting: Setting,
    /// Number of entries in a cluster; None to limit clusters by their size in bytes.
    pub cluster_entries: Option<u64>,
    /// Approximate compressed size of a cluster.
    pub cluster_bytes: u64,
    /// Maximum size of a page before compression.
    pub page_bytes: u64,
}

/// The columns of the cluster that is being filled.
#[derive(Clone)]
pub(crate) struct ClusterColumns {
    layout: Layout,
    columns: Vec<OpenColumn>,
    /// Total size of the elements in pages that are not full, in bytes.
    open_bytes: usize,
    waiting: Vec<FullPage<'static>>,
    waiting_bytes: usize,
    /// Compressed pages that have not been written yet.
    held: Vec<HeldPage>,
    /// Buffers of compressed or written pages, for reuse.
    spare: Spare,
    sealed_bytes: u64,
    plain_bytes: u64,
    /// The compression ratio of the previous clusters.
    ratio: CompressionRatio,
    /// Maximum number of bytes of pages under one key.
    blob_bytes: usize,
}

#[derive(Clone)]
struct OpenColumn {
    encoding: std::result::Result<Encoding, String>,
    /// The name of the field, for error messages.
    name: String,
    is_used: bool,
    elements: Vec<u8>,
    elements_count: u64,
    /// The last offset, if the column contains collection offsets.
    last_end: u64,
    pages: Vec<SealedPage>,
}

/// An empty page gets a buffer with the capacity of a full page if the first call adds at least 1/`ROOM_FROM_DIVISOR`
/// of a page.
const ROOM_FROM_DIVISOR: usize = 8;

/// Elements given in one call become a separate page if they fill at least 1/`PAGE_FROM_DIVISOR` of a page. Fewer
/// elements are copied, and wait for more.
const PAGE_FROM_DIVISOR: usize = 2;

/// A page to compress. Its elements are either owned or borrowed.
#[derive(Clone)]
struct FullPage<'v> {
    column: usize,
    first_element: u64,
    encoding: Encoding,
    elements: Cow<'v, [u8]>,
}

/// Pages whose elements are borrowed from the current values.
#[derive(Default)]
pub(crate) struct GivenPages<'v>(Vec<FullPage<'v>>);

/// The buffers and codecs with which a thread compresses pages.
#[derive(Default)]
struct PageRoom {
    compressor: Compressor,
    plain: Vec<u8>,
}

static ROOMS: Rooms<PageRoom> = Rooms::new();

impl Room for PageRoom {
    fn bytes(&self) -> usize {
        self.compressor.bytes() + self.plain.capacity()
    }
}

/// The result of compressing a page.
enum Made {
    /// Only the checksum, because the page's elements are stored unchanged.
    Checksum([u8; 8]),
    /// The stored bytes.
    Stored(Vec<u8>),
}

#[derive(Clone)]
struct SealedPage {
    first_element: u64,
    elements_count: u64,
    stored: Stored,
}

impl FullPage<'_> {
    /// Returns the sealed page with these stored bytes.
    fn sealed(&self, stored: Stored) -> SealedPage {
        let elements_count = (self.elements.len() / element_size(&self.encoding)) as u64;
        SealedPage { first_element: self.first_element, elements_count, stored }
    }

    /// Encodes and compresses the page.
    fn made(&self, setting: Setting, spare: &Spare, room: &mut PageRoom) -> FormatResult<Made> {
        let PageRoom { compressor, plain } = room;
        let is_native = is_native(&self.encoding);
        if is_native && setting == Setting::NONE {
            return Ok(Made::Checksum(page::checksum_of(&self.elements)));
        }
        if !is_native {
            encode_into(&self.encoding, &self.elements, plain)?;
        }
        let plain = if is_native { &*self.elements } else { &*plain };
        let mut bytes = spare.take_used(plain.len());
        seal_over(plain, setting, compressor, &mut bytes);
        if bytes.len() < bytes.capacity() / 2 {
            // Give back unused capacity, because pages that wait for the end of the cluster should not take more memory
            // than needed.
            let exact = bytes.clone();
            spare.give(std::mem::replace(&mut bytes, exact));
        }
        Ok(Made::Stored(bytes))
    }
}

/// The stored bytes of a page. Several pages may share them.
#[derive(Clone, Copy)]
enum Stored {
    /// The bytes are in memory, in the held page with this index.
    Held(usize),
    /// The bytes are already in the file, at this location and with this checksum.
    Written(Locator, u64),
}

/// The stored bytes of a page, which end with their checksum.
#[derive(Clone)]
struct HeldPage {
    bytes: Vec<u8>,
    checksum: u64,
    /// The location of the bytes in the file. None until it is known.
    locator: Option<Locator>,
}

impl ClusterColumns {
    /// Creates an empty cluster.
    pub(crate) fn new(schema: &Schema, layout: Layout) -> Self {
        let mut own = Self {
            layout,
            columns: Vec::new(),
            open_bytes: 0,
            waiting: Vec::new(),
            waiting_bytes: 0,
            held: Vec::new(),
            spare: Spare::default(),
            sealed_bytes: 0,
            plain_bytes: 0,
            ratio: CompressionRatio { stored_bytes: 1, plain_bytes: 1 },
            blob_bytes: limits::BLOB_BYTES,
        };
        own.extend(schema);
        own
    }

    /// Adds the columns that are new in the schema.
    pub(crate) fn extend(&mut self, schema: &Schema) {
        let open = |column: &branchline_format::ntuple::schema::Column| OpenColumn {
            encoding: column.encoding.clone(),
            name: schema.path_of(column.field),
            is_used: false,
            elements: Vec::new(),
            elements_count: 0,
            last_end: 0,
            pages: Vec::new(),
        };
        self.columns.extend(schema.columns.iter().skip(self.columns.len()).map(open));
    }

    /// Marks a column as present in this cluster, with or without elements.
    pub(crate) fn use_column(&mut self, column: usize) {
        self.columns[column].is_used = true;
    }

    /// Number of elements that a column currently has.
    pub(crate) fn elements_count(&self, column: usize) -> u64 {
        self.columns[column].elements_count
    }

    /// The last collection offset in a column.
    pub(crate) fn last_end(&self, column: usize) -> u64 {
        self.columns[column].last_end
    }

    /// Sets the last collection offset in a column.
    pub(crate) fn set_last_end(&mut self, column: usize, end: u64) {
        self.columns[column].last_end = end;
    }

    /// Estimated stored size of the cluster, in bytes.
    pub(crate) fn estimated_bytes(&self) -> u64 {
        self.sealed_bytes + self.ratio.stored((self.open_bytes + self.waiting_bytes) as u64)
    }

    /// Approximate number of bytes before compression that still fit in the cluster.
    pub(crate) fn room_bytes(&self) -> u64 {
        self.ratio.plain(self.layout.cluster_bytes.saturating_sub(self.estimated_bytes()))
    }

    /// Returns an empty buffer for elements.
    pub(crate) fn take_buffer(&self, bytes: usize) -> Vec<u8> {
        self.spare.take(bytes)
    }

    /// Adds elements in a buffer that was obtained from `take_buffer`.
    pub(crate) fn push_buffer(&mut self, column: usize, elements: Vec<u8>, path: &str) -> Result<()> {
        let pushed = self.push(column, &elements, path);
        self.spare.give(elements);
        pushed
    }

    /// Returns a column's encoding, and the maximum size of a page's elements. Marks the column as present in this
    /// cluster.
    fn page_of(&mut self, column: usize, path: &str) -> Result<(Encoding, usize)> {
        let open = &mut self.columns[column];
        open.is_used = true;
        let refused = |reason: String| ReadError::new(crate::error::ReadErrorKind::Unsupported, path, reason);
        let encoding = open.encoding.clone().map_err(|reason| refused(format!("field {}: {reason}", open.name)))?;
        let count = ((self.layout.page_bytes.saturating_mul(8) / encoding.bits as u64) as usize).max(1);
        Ok((encoding, count * element_size(&encoding)))
    }

    /// Adds borrowed elements. Full pages are appended to `given`, which must be passed to `settle`. Only a remainder
    /// that is too small for a separate page is copied.
    pub(crate) fn give<'v>(
        &mut self,
        column: usize,
        elements: &'v [u8],
        given: &mut GivenPages<'v>,
        path: &str,
    ) -> Result<()> {
        let (encoding, per_page) = self.page_of(column, path)?;
        let missing = match self.columns[column].elements.len() {
            0 => 0,
            taken => (per_page - taken).min(elements.len()),
        };
        let (before, pages) = elements.split_at(missing);
        self.push(column, before, path)?;
        for page in pages.chunks(per_page) {
            if page.len() < per_page / PAGE_FROM_DIVISOR {
                return self.push(column, page, path);
            }
            let first_element = self.columns[column].elements_count;
            self.columns[column].elements_count += (page.len() / element_size(&encoding)) as u64;
            given.0.push(FullPage { column, first_element, encoding, elements: Cow::Borrowed(page) });
        }
        Ok(())
    }

    /// Compresses or writes pages with borrowed elements, so that the borrowed memory is no longer needed.
    pub(crate) fn settle(&mut self, given: GivenPages<'_>, output: &mut Output, date: u32) -> Result<()> {
        if given.0.is_empty() {
            return Ok(());
        }
        let path = output.path().display().to_string();
        let setting = self.layout.setting;
        let (plain, others): (Vec<_>, Vec<_>) =
            given.0.into_iter().partition(|page| is_native(&page.encoding) && setting == Setting::NONE);
        if others.iter().map(|page| page.elements.len() as u64).sum::<u64>() < limits::FILLED_AT_ONCE_BYTES {
            // Copy these elements, because they are too few to keep all cores busy.
            for FullPage { column, first_element, encoding, elements } in others {
                let mut own = self.spare.take(elements.len());
                own.extend_from_slice(&elements);
                self.waiting_bytes += own.len();
                self.waiting.push(FullPage { column, first_element, encoding, elements: own.into() });
            }
        } else {
            self.seal(others, &path)?;
        }
        let firsts = firsts_of(plain.iter().map(|page| (&page.encoding, &*page.elements)));
        let mut written = Vec::with_capacity(plain.len());
        for (number, (page, first)) in plain.iter().zip(firsts).enumerate() {
            let stored = if first < number { written[first] } else { self.write(page, output, date)? };
            written.push(stored);
            self.plain_bytes += page.elements.len() as u64;
            self.columns[page.column].pages.push(page.sealed(stored));
        }
        Ok(())
    }

    /// Writes a page whose elements are stored unchanged.
    fn write(&mut self, page: &FullPage<'_>, output: &mut Output, date: u32) -> Result<Stored> {
        let checksum = page::checksum_of(&page.elements);
        let offset = write_blob(output, date, &[&*page.elements, &checksum])?;
        let locator = Locator { offset, size: page.elements.len() as u64 };
        self.sealed_bytes += locator.size + PAGE_CHECKSUM_SIZE;
        Ok(Stored::Written(locator, u64::from_le_bytes(checksum)))
    }

    /// Adds elements in the representation that `elements.rs` in the format crate defines.
    pub(crate) fn push(&mut self, column: usize, elements: &[u8], path: &str) -> Result<()> {
        let (encoding, per_page) = self.page_of(column, path)?;
        let open = &mut self.columns[column];
        let count = |bytes: usize| (bytes / element_size(&encoding)) as u64;
        let room = per_page + PAGE_CHECKSUM_SIZE as usize;
        let mut rest = elements;
        while open.elements.len() + rest.len() >= per_page {
            let (now, later) = rest.split_at(per_page - open.elements.len());
            self.open_bytes -= open.elements.len();
            let mut full = std::mem::take(&mut open.elements);
            if full.capacity() == 0 {
                full = self.spare.take(room);
                full.reserve_exact(room);
            }
            full.extend_from_slice(now);
            open.elements_count += count(now.len());
            let first_element = open.elements_count - count(full.len());
            self.waiting_bytes += full.len();
            self.waiting.push(FullPage { column, first_element, encoding, elements: full.into() });
            rest = later;
        }
        if open.elements.capacity() == 0 && rest.len() >= per_page / ROOM_FROM_DIVISOR {
            open.elements = self.spare.take(room);
            open.elements.reserve_exact(room);
        }
        open.elements.extend_from_slice(rest);
        open.elements_count += count(rest.len());
        self.open_bytes += rest.len();
        if self.waiting_bytes > limits::PAGES_AT_ONCE_BYTES {
            self.seal(Vec::new(), path)?;
        }
        if self.open_bytes > limits::OPEN_PAGES_BYTES {
            self.fill_up(limits::OPEN_PAGES_BYTES / 2);
            self.seal(Vec::new(), path)?;
        }
        Ok(())
    }

    /// Closes the largest open pages, until the remaining open pages take no more than `most` bytes.
    fn fill_up(&mut self, most: usize) {
        let mut order: Vec<usize> = (0..self.columns.len()).collect();
        order.sort_by_key(|column| std::cmp::Reverse(self.columns[*column].elements.len()));
        for column in order {
            if self.open_bytes <= most {
                return;
            }
            self.take(column);
        }
    }

    fn take(&mut self, column: usize) {
        let open = &mut self.columns[column];
        let Ok(encoding) = open.encoding else { return };
        let elements = std::mem::take(&mut open.elements);
        if !elements.is_empty() {
            self.open_bytes -= elements.len();
            self.waiting_bytes += elements.len();
            let first_element = open.elements_count - (elements.len() / element_size(&encoding)) as u64;
            self.waiting.push(FullPage { column, first_element, encoding, elements: elements.into() });
        }
    }

    /// Compresses the waiting pages, and after them the given pages.
    fn seal(&mut self, given: Vec<FullPage<'_>>, path: &str) -> Result<()> {
        let mut pages: Vec<FullPage<'_>> = std::mem::take(&mut self.waiting).into_iter().chain(given).collect();
        self.waiting_bytes = 0;
        let firsts = firsts_of(pages.iter().map(|page| (&page.encoding, &*page.elements)));
        let distinct: Vec<usize> = (0..pages.len()).filter(|number| firsts[*number] == *number).collect();
        for (page, first) in pages.iter().zip(&firsts) {
            let rank = distinct.partition_point(|number| number < first);
            let sealed = page.sealed(Stored::Held(self.held.len() + rank));
            self.plain_bytes += page.encoding.page_size(sealed.elements_count);
            self.columns[page.column].pages.push(sealed);
        }
        let (setting, spare) = (self.layout.setting, &self.spare);
        let made = map_in_order(&distinct, || ROOMS.lend(), |room, number| pages[*number].made(setting, spare, room));
        for (number, made) in distinct.into_iter().zip(made) {
            let page = &mut pages[number];
            let made = made.map_err(|error| {
                ReadError::from_format(path, &error.in_object(format!("field {}", self.columns[page.column].name)))
            })?;
            let bytes = match made {
                Made::Checksum(checksum) => {
                    let mut bytes = std::mem::take(&mut page.elements).into_owned();
                    bytes.extend_from_slice(&checksum);
                    bytes
                }
                Made::Stored(stored) => stored,
            };
            self.sealed_bytes += bytes.len() as u64;
            self.held.push(HeldPage { checksum: checksum_of(&bytes), bytes, locator: None });
        }
        for page in pages {
            if let Cow::Owned(elements) = page.elements {
                self.spare.give(elements);
            }
        }
        Ok(())
    }

    /// Writes the pages of the cluster, and starts the next cluster.
    pub(crate) fn close(&mut self, output: &mut Output, date: u32, entries_count: u64) -> Result<WrittenCluster> {
        let path = output.path().display().to_string();
        (0..self.columns.len()).for_each(|column| self.take(column));
        self.seal(Vec::new(), &path)?;
        let compression = Some(self.layout.setting.as_root() as u32);
        let mut made = Vec::with_capacity(self.columns.len());
        let mut checksums = Vec::with_capacity(self.columns.len());
        let mut blob = OpenBlob::new(output, date, self.blob_bytes, &self.spare);
        for column in &mut self.columns {
            let mut pages = Vec::with_capacity(column.pages.len());
            let mut checksums_of_pages = Vec::with_capacity(column.pages.len());
            // Pages with borrowed elements may have been sealed before or after waiting pages.
            column.pages.sort_by_key(|sealed| sealed.first_element);
            for SealedPage { first_element, elements_count, stored } in column.pages.drain(..) {
                let (locator, checksum) = match stored {
                    Stored::Written(locator, checksum) => (locator, checksum),
                    Stored::Held(number) => {
                        let HeldPage { bytes, checksum, locator } = &mut self.held[number];
                        let place = match *locator {
                            Some(place) => place,
                            None => blob.add(std::mem::take(bytes))?,
                        };
                        *locator = Some(place);
                        (place, *checksum)
                    }
                };
                checksums_of_pages.push(checksum);
                pages.push(Page { first_element, elements_count, locator, has_checksum: true });
            }
            let is_suppressed = !column.is_used;
            let compression = compression.filter(|_| !is_suppressed);
            made.push(ColumnPages { pages, is_suppressed, compression });
            checksums.push(checksums_of_pages);
            (column.is_used, column.elements_count, column.last_end) = (false, 0, 0);
        }
        blob.write()?;
        self.held.clear();
        self.ratio = CompressionRatio { stored_bytes: self.sealed_bytes.max(1), plain_bytes: self.plain_bytes.max(1) };
        (self.sealed_bytes, self.plain_bytes) = (0, 0);
        Ok(WrittenCluster { entries_count, columns: made, checksums })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use branchline_format::ntuple::number_types::ColumnType;
    use branchline_format::ntuple::schema::{Column, Field, Role};
    use branchline_format::ntuple::write::page::checked;
    use branchline_format::numbers::number::Number;

    use super::*;

    fn one_column() -> Schema {
        let kind = ColumnType::of_numbers(Number::F64, false);
        let (encoding, suppressed_before) = (kind.encoding(), false);
        let column = Column { kind, encoding, field: 0, representation: 0, first_element: 0, suppressed_before };
        let field = Field {
            name: "x".to_string(),
            type_name: "double".to_string(),
            type_alias: String::new(),
            description: String::new(),
            field_version: 0,
            type_version: 0,
            parent: None,
            role: Role::Plain,
            array_size: None,
            source: None,
            type_checksum: None,
            later: Default::default(),
            children: Vec::new(),
            columns: vec![vec![0]],
        };
        Schema { fields: vec![field], columns: vec![column], top: vec![0], ..Schema::default() }
    }

    /// Creates a folder, and in it a file with a header.
    fn begun(name: &str) -> (PathBuf, Output) {
        let folder = std::env::temp_dir().join(format!("branchline-cluster-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut output = Output::create(&folder.join("a.root"), false, &[]).unwrap();
        output.write(&[0; 100]).unwrap();
        (folder, output)
    }

    /// Returns the elements of the column, and the number of elements in each page. The elements are stored unchanged.
    fn read_back(output: &Output, made: &WrittenCluster) -> (Vec<u8>, Vec<u64>) {
        let written = fs::read(output.temporary()).unwrap();
        let (mut read, mut counts) = (Vec::new(), Vec::new());
        for (page, checksum) in made.columns[0].pages.iter().zip(&made.checksums[0]) {
            assert_eq!(page.first_element, counts.iter().sum::<u64>());
            let Locator { offset, size } = page.stored();
            let stored = &written[offset as usize..(offset + size) as usize];
            assert_eq!(checksum_of(stored), *checksum);
            read.extend_from_slice(checked(stored, page).unwrap());
            counts.push(page.elements_count);
        }
        (read, counts)
    }

    #[test]
    fn what_is_given_lies_behind_what_was_copied() {
        let (folder, mut output) = begun("given");
        let layout = Layout { setting: Setting::NONE, cluster_entries: None, cluster_bytes: 1 << 20, page_bytes: 80 };
        let mut columns = ClusterColumns::new(&one_column(), layout);
        let elements: Vec<u8> = (0..100).flat_map(|number| f64::from(number).to_le_bytes()).collect();
        let mut begin = 0;
        for count in [4, 5, 25, 3, 31, 32] {
            let mut given = GivenPages::default();
            columns.give(0, &elements[8 * begin..8 * (begin + count)], &mut given, "").unwrap();
            columns.settle(given, &mut output, 0).unwrap();
            begin += count;
        }
        let made = columns.close(&mut output, 0, 100).unwrap();
        let (read, counts) = read_back(&output, &made);
        assert_eq!(read, elements);
        // 4 and 5 elements become a page together with one element of the next call. The remaining 4 and the following
        // 3 elements are again too few for a page, but the last 8 elements of the call after that are enough.
        assert_eq!(counts, [10, 10, 10, 10, 10, 10, 8, 10, 10, 10, 2]);
        drop(output);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn pages_of_a_large_cluster_are_written_behind_several_keys() {
        let (folder, mut output) = begun("keys");
        let layout = Layout { setting: Setting::NONE, cluster_entries: None, cluster_bytes: 1 << 20, page_bytes: 64 };
        let mut columns = ClusterColumns::new(&one_column(), layout);
        columns.blob_bytes = 200;
        let elements: Vec<u8> = (0..100).flat_map(|number| f64::from(number).to_le_bytes()).collect();
        columns.push(0, &elements, "").unwrap();
        let made = columns.close(&mut output, 0, 100).unwrap();
        assert_eq!(read_back(&output, &made).0, elements);
        let written = fs::read(output.temporary()).unwrap();
        // Each key has room for two of the 12 pages of 72 bytes. The last key also gets a page of 40 bytes.
        assert_eq!(written.windows(5).filter(|window| window == b"RBlob").count(), 6);
        drop(output);
        fs::remove_dir_all(folder).unwrap();
    }
}
