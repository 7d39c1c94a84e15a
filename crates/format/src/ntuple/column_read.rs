//! Decoding of one column's elements in a cluster, from the stored bytes of its pages.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

use crate::compress::{check_declared_size, Codec, CompressError, COMPRESSION_FACTOR_MAX};
use crate::error::{FormatError, Result};
use crate::file::loaded_bytes::DecodeError;

use super::encoding::{Encoding, Switch};
use super::envelope::{blob, Locator};
use super::page_list::{ColumnPages, Page, PAGE_CHECKSUM_SIZE};
use crate::numbers::number::Number;

/// Maximum size of a decompressed page, because ROOT compresses at most 1 GiB at once.
const PAGE_SIZE_MAX: u64 = 1 << 30;
/// Maximum memory for a deferred column's leading zeros, as a multiple of the file size. These zeros stand for the
/// elements before the column was added.
const ZEROS_FACTOR_MAX: u64 = 1024;
/// Maximum number of elements for which memory is reserved before the pages are checked.
const TRUSTED_COUNT: u64 = 1 << 16;

/// The loaded parts of a file, with pages of a cluster.
#[derive(Debug, Default)]
pub struct Stored {
    /// Size of the file.
    pub file_size: u64,
    /// Maximum size of a key's payload; a larger blob is split into several keys.
    pub max_key_size: u64,
    parts: BTreeMap<u64, Bytes>,
}

impl Stored {
    /// Create an empty set of loaded parts.
    pub fn new(file_size: u64, max_key_size: u64) -> Self {
        Self { file_size, max_key_size, parts: BTreeMap::new() }
    }

    /// Add bytes that start at file offset `offset`.
    pub fn add(&mut self, offset: u64, bytes: Bytes) {
        match self.parts.get(&offset) {
            Some(there) if there.len() >= bytes.len() => {}
            _ => drop(self.parts.insert(offset, bytes)),
        }
    }

    /// The part that starts at `offset`.
    pub fn part(&self, offset: u64) -> Option<&Bytes> {
        self.parts.get(&offset)
    }

    /// Total size of all loaded parts.
    pub fn size_bytes(&self) -> usize {
        self.parts.values().map(Bytes::len).sum()
    }

    /// The part with the lowest file offset. Callers sort their work by the memory address of this part.
    pub fn first(&self) -> Option<&Bytes> {
        self.parts.values().next()
    }

    fn get(&self, offset: u64, size: u64) -> std::result::Result<&[u8], DecodeError> {
        if offset.checked_add(size).is_none_or(|end| end > self.file_size) {
            let message = format!("a page of {size} bytes exceeds the file of {} bytes", self.file_size);
            return Err(FormatError::damaged(offset, message).into());
        }
        let found = self.parts.get(&offset).and_then(|bytes| bytes.get(..usize::try_from(size).ok()?));
        found.ok_or(DecodeError::MissingBytes { offset, size })
    }

    fn page(&self, page: &Page) -> std::result::Result<Cow<'_, [u8]>, DecodeError> {
        blob(|offset, size| self.get(offset, size), page.stored(), self.max_key_size, self.file_size)
    }

    /// The file range that must be loaded to read a page; None if the page is loaded.
    pub(super) fn missing(&self, page: &Page) -> Result<Option<Locator>> {
        match self.page(page) {
            Ok(_) => Ok(None),
            Err(DecodeError::MissingBytes { offset, size }) => Ok(Some(Locator { offset, size })),
            Err(DecodeError::Format(error)) => Err(error),
        }
    }
}

/// A function that decompresses records into a buffer whose size is exactly the uncompressed size.
pub type Decompress<'a> = dyn FnMut(&[u8], &mut [u8]) -> std::result::Result<Codec, CompressError> + 'a;

/// Buffers of one thread, reused for every page.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Buffer for a decompressed page.
    pub plain: Vec<u8>,
    /// Buffer for elements that are reassembled from split bytes.
    pub staging: Vec<u8>,
}

impl Scratch {
    /// Memory held by the buffers, in bytes.
    pub fn bytes(&self) -> usize {
        self.plain.capacity() + self.staging.capacity()
    }
}

/// A page that was decompressed, for traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsedPage {
    /// Index of the page's column in the schema.
    pub column: usize,
    /// Location of the compressed bytes in the file.
    pub locator: Locator,
}

/// Decompression function, buffers and statistics for decoding pages.
pub struct Unpacker<'a> {
    /// The decompression function.
    pub decompress: &'a mut Decompress<'a>,
    /// The reusable buffers.
    pub scratch: &'a mut Scratch,
    /// Total compressed size of the pages.
    pub stored_bytes: u64,
    /// Total decompressed size of the pages.
    pub plain_bytes: u64,
    /// Codec of the page that was decompressed last.
    pub codec: Codec,
    /// The pages that were decompressed, if the caller requested a list.
    pub pages: Option<Vec<UsedPage>>,
}

impl<'a> Unpacker<'a> {
    /// Create an unpacker with all statistics at 0.
    pub fn new(decompress: &'a mut Decompress<'a>, scratch: &'a mut Scratch) -> Self {
        Self { decompress, scratch, stored_bytes: 0, plain_bytes: 0, codec: Codec::None, pages: None }
    }

    /// Add a page to the statistics and to the list of decompressed pages.
    fn count(&mut self, column: usize, page: &Page, plain_bytes: usize) {
        self.stored_bytes += page.locator.size;
        self.plain_bytes += plain_bytes as u64;
        if let Some(pages) = &mut self.pages {
            pages.push(UsedPage { column, locator: page.locator });
        }
    }
}

/// A reader of a column in one cluster.
pub(super) struct ColumnReader<'a> {
    /// Index of the column, for error messages.
    pub(super) number: usize,
    pub(super) encoding: Encoding,
    pub(super) pages: &'a ColumnPages,
    /// Number of zeros before the first page. The zeros stand for elements before the column was added.
    pub(super) zeros: u64,
    pub(super) stored: &'a Stored,
}

/// Consecutive elements of a column.
enum Part<'a> {
    Zeros(usize),
    Page { plain: &'a [u8], count: usize, wanted: Range<usize> },
}

impl ColumnReader<'_> {
    /// Decompress all pages without decoding them.
    pub(super) fn unpack(&self, unpacker: &mut Unpacker<'_>) -> Result<()> {
        self.each_part(0..self.elements_count(), unpacker, |_, _| Ok(()))
    }

    /// Number of elements in this cluster, including leading zeros.
    pub(super) fn elements_count(&self) -> u64 {
        self.zeros + self.pages.elements_count()
    }

    /// The pages that contain at least one of these elements.
    pub(super) fn pages_of(&self, elements: &Range<u64>) -> &[Page] {
        if elements.is_empty() {
            return &[];
        }
        let start = elements.start.saturating_sub(self.zeros);
        let end = elements.end.saturating_sub(self.zeros);
        let pages = &self.pages.pages;
        let first = pages.partition_point(|page| page.first_element + page.elements_count <= start);
        let last = pages.partition_point(|page| page.first_element < end);
        &pages[first..last.max(first)]
    }

    /// Validate the requested elements. Fails if the column has fewer elements, or if they include more leading
    /// zeros than is plausible for the file size.
    pub(super) fn check(&self, elements: &Range<u64>, element_size: usize) -> Result<()> {
        if elements.start > elements.end || elements.end > self.elements_count() {
            let message = format!("elements {elements:?} are out of bounds, the column has {}", self.elements_count());
            return Err(self.named(FormatError::damaged(0, message)));
        }
        let zeros = self.zeros.saturating_sub(elements.start).min(elements.end - elements.start);
        let room = self.stored.file_size.saturating_mul(ZEROS_FACTOR_MAX);
        if zeros.saturating_mul(element_size as u64) > room {
            let message = format!("{zeros} elements before the column was added are too many for the size of the file");
            return Err(self.named(FormatError::damaged(0, message)));
        }
        Ok(())
    }

    fn named(&self, error: FormatError) -> FormatError {
        error.in_object(format!("column {}", self.number))
    }

    fn each_part(
        &self,
        elements: Range<u64>,
        unpacker: &mut Unpacker<'_>,
        mut visit: impl FnMut(Part<'_>, &mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        let zeros = self.zeros.min(elements.end).saturating_sub(elements.start);
        if zeros > 0 {
            visit(Part::Zeros(zeros as usize), &mut unpacker.scratch.staging)?;
        }
        for page in self.pages_of(&elements) {
            let named = |error: FormatError| self.named(error.in_object(format!("page at {}", page.locator.offset)));
            let wanted = self.wanted(page, &elements);
            let stored = self.page(page).map_err(named)?;
            let size = self.plain_size(page).map_err(named)?;
            unpacker.count(self.number, page, size);
            let count = page.elements_count as usize;
            if size == stored.len() {
                let part = Part::Page { plain: &stored, count, wanted };
                visit(part, &mut unpacker.scratch.staging).map_err(named)?;
                continue;
            }
            let Scratch { plain: room, staging } = &mut *unpacker.scratch;
            room.resize(room.len().max(size), 0);
            unpacker.codec = unpack(unpacker.decompress, &stored, &mut room[..size]).map_err(named)?;
            visit(Part::Page { plain: &room[..size], count, wanted }, staging).map_err(named)?;
        }
        Ok(())
    }

    /// The part of `elements` that lies in a page, relative to the start of the page.
    fn wanted(&self, page: &Page, elements: &Range<u64>) -> Range<usize> {
        let first = self.zeros + page.first_element;
        let start = elements.start.max(first) - first;
        let end = elements.end.min(first + page.elements_count) - first;
        start as usize..end as usize
    }

    /// Verify a page's checksum and return its stored bytes without the checksum.
    fn page(&self, page: &Page) -> Result<Cow<'_, [u8]>> {
        let stored = self.fetched(page)?;
        let size = verified(&stored, page)?.len();
        Ok(match stored {
            Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[..size]),
            Cow::Owned(mut bytes) => {
                bytes.truncate(size);
                Cow::Owned(bytes)
            }
        })
    }

    /// The stored bytes of a page. The caller must have loaded the ranges that [`FieldReader::missing`] returned.
    ///
    /// [`FieldReader::missing`]: super::cluster::FieldReader::missing
    fn fetched(&self, page: &Page) -> Result<Cow<'_, [u8]>> {
        self.stored.page(page).map_err(|error| match error {
            DecodeError::Format(error) => error,
            DecodeError::MissingBytes { offset, size } => {
                FormatError::internal(format!("{size} bytes of a page at offset {offset} were not fetched"))
            }
        })
    }

    /// The decompressed size of a page. Rejects implausible sizes before memory is allocated for them.
    fn plain_size(&self, page: &Page) -> Result<usize> {
        let stored = self.fetched(page)?;
        let compressed = stored.get(..page.locator.size as usize).unwrap_or_default();
        checked_plain_size(&self.encoding, page, compressed)
    }

    /// Decode elements as numbers of type `number` and append them. Memory is allocated page by page, after the size of
    /// each page was checked.
    pub(super) fn append_numbers(
        &self,
        elements: Range<u64>,
        number: Number,
        unpacker: &mut Unpacker<'_>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        self.check(&elements, number.size())?;
        let ends = self.pages_of(&elements).iter().map(|page| self.zeros + page.first_element + page.elements_count);
        let mut start = elements.start;
        for end in std::iter::once(self.zeros).chain(ends) {
            let end = end.min(elements.end);
            if end <= start {
                continue;
            }
            for page in self.pages_of(&(start..end)) {
                self.plain_size(page).map_err(|error| self.named(error))?;
            }
            let filled = out.len();
            out.resize(filled + number.size() * (end - start) as usize, 0);
            self.numbers(start..end, number, unpacker, &mut out[filled..])?;
            start = end;
        }
        Ok(())
    }

    /// Decode elements as numbers of type `number` into `out`, which must have exactly the right size.
    pub(super) fn numbers(
        &self,
        elements: Range<u64>,
        number: Number,
        unpacker: &mut Unpacker<'_>,
        out: &mut [u8],
    ) -> Result<()> {
        let mut filled = 0;
        if self.zeros == 0 && self.encoding.is_native(number) {
            return self.native_numbers(elements, number, unpacker, out);
        }
        self.each_part(elements, unpacker, |part, _| match part {
            Part::Zeros(count) => {
                let end = filled + number.size() * count;
                out[filled..end].fill(0);
                filled = end;
                Ok(())
            }
            Part::Page { plain, count, wanted } => {
                let end = filled + number.size() * wanted.len();
                self.encoding.numbers(plain, count, wanted, number, &mut out[filled..end])?;
                filled = end;
                Ok(())
            }
        })
    }

    /// Copy elements whose encoding is the native representation. Pages that are requested as a whole are decompressed
    /// directly into `out`.
    fn native_numbers(
        &self,
        elements: Range<u64>,
        number: Number,
        unpacker: &mut Unpacker<'_>,
        out: &mut [u8],
    ) -> Result<()> {
        let mut rest = out;
        for page in self.pages_of(&elements) {
            let named = |error: FormatError| self.named(error.in_object(format!("page at {}", page.locator.offset)));
            let wanted = self.wanted(page, &elements);
            let (place, after) = rest.split_at_mut(number.size() * wanted.len());
            rest = after;
            let stored = self.page(page).map_err(named)?;
            let size = self.plain_size(page).map_err(named)?;
            unpacker.count(self.number, page, size);
            let bytes = number.size() * wanted.start..number.size() * wanted.end;
            if size == stored.len() {
                place.copy_from_slice(&stored[bytes]);
            } else if size == place.len() {
                unpacker.codec = unpack(unpacker.decompress, &stored, place).map_err(named)?;
            } else {
                let room = &mut unpacker.scratch.plain;
                room.resize(room.len().max(size), 0);
                let room = &mut room[..size];
                unpacker.codec = unpack(unpacker.decompress, &stored, room).map_err(named)?;
                place.copy_from_slice(&room[bytes]);
            }
        }
        Ok(())
    }

    /// Decode collection ends and append them to `out`.
    pub(super) fn indexes(&self, elements: Range<u64>, unpacker: &mut Unpacker<'_>, out: &mut Vec<u64>) -> Result<()> {
        self.check(&elements, 8)?;
        out.reserve((elements.end - elements.start).min(TRUSTED_COUNT) as usize);
        self.each_part(elements, unpacker, |part, staging| match part {
            Part::Zeros(count) => {
                out.resize(out.len() + count, 0);
                Ok(())
            }
            Part::Page { plain, count, wanted } => self.encoding.indexes(plain, count, wanted, staging, out),
        })
    }

    /// Decode elements of a variant column.
    pub(super) fn switches(&self, elements: Range<u64>, unpacker: &mut Unpacker<'_>) -> Result<Vec<Switch>> {
        self.check(&elements, 16)?;
        let mut out = Vec::with_capacity((elements.end - elements.start).min(TRUSTED_COUNT) as usize);
        self.each_part(elements, unpacker, |part, _| match part {
            Part::Zeros(count) => {
                out.resize(out.len() + count, Switch::default());
                Ok(())
            }
            Part::Page { plain, wanted, .. } => self.encoding.switches(plain, wanted, &mut out),
        })?;
        Ok(out)
    }
}

/// Verify a page's checksum, if it has one, and return the compressed bytes.
pub(super) fn verified<'a>(stored: &'a [u8], page: &Page) -> Result<&'a [u8]> {
    if !page.has_checksum {
        return Ok(stored);
    }
    let damaged = |what: &str| FormatError::damaged(page.locator.offset, what);
    let split = stored.split_last_chunk::<{ PAGE_CHECKSUM_SIZE as usize }>();
    let (compressed, checksum) = split.ok_or_else(|| damaged("the page is shorter than its checksum"))?;
    if u64::from_le_bytes(*checksum) != xxh3_64(compressed) {
        return Err(damaged("checksum mismatch in the page"));
    }
    Ok(compressed)
}

/// The decompressed size of a page. Rejects sizes that the compressed bytes cannot decompress to, before memory is
/// allocated for them.
pub(super) fn checked_plain_size(encoding: &Encoding, page: &Page, compressed: &[u8]) -> Result<usize> {
    let size = encoding.page_size(page.elements_count);
    if size > page.locator.size.saturating_mul(COMPRESSION_FACTOR_MAX).min(PAGE_SIZE_MAX) {
        let message = format!("{} elements cannot be stored in {} bytes", page.elements_count, page.locator.size);
        return Err(FormatError::damaged(page.locator.offset, message));
    }
    let size = size as usize;
    if size != compressed.len() {
        check_declared_size(compressed, size)
            .map_err(|error| FormatError::not_decompressed(page.locator.offset, error))?;
    }
    Ok(size)
}

fn unpack(decompress: &mut Decompress<'_>, stored: &[u8], room: &mut [u8]) -> Result<Codec> {
    decompress(stored, room).map_err(|error| FormatError::not_decompressed(error.offset as u64, error))
}
