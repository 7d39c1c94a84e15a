//! A field's entries in one cluster: the pages that contain them, and the decoding of these pages into a column.
//!
//! Outside of collections, the element positions follow from the entry numbers. Inside collections, the positions
//! depend on the pages with the collection ends. If only part of a cluster is requested, these pages are therefore
//! needed first.
//!
//! ```
//! use branchline_format::ntuple::cluster::FieldCluster;
//! use branchline_format::ntuple::form::Form;
//! use branchline_format::ntuple::page_list::Cluster;
//! use branchline_format::error::Result;
//!
//! /// Stored size of a field in a cluster, in bytes.
//! fn stored_bytes(form: &Form, cluster: &Cluster) -> Result<u64> {
//!     Ok(FieldCluster::new(form, cluster)?.locators().map(|locator| locator.size).sum())
//! }
//! ```

use std::collections::HashMap;
use std::ops::Range;

use bytes::Bytes;

use crate::column::reordered::reordered;
use crate::column::Column;
use crate::error::{FormatError, Result};

use super::column_read::ColumnReader;
pub use super::column_read::{Decompress, Scratch, Stored, Unpacker, UsedPage};
use super::encoding::Switch;
use super::envelope::Locator;
use super::form::{optional, Form};
use super::page_list::{Cluster, ColumnPages, Page};
use super::schema::Schema;
use crate::numbers::number::Number;

/// The pages of all columns of a field in one cluster.
#[derive(Debug)]
pub struct FieldCluster {
    /// Number of entries in the cluster.
    pub entries_count: u64,
    pages: HashMap<usize, ColumnPages>,
}

/// The requested elements of a column.
#[derive(Debug, Clone)]
struct Wanted {
    /// Range of elements, relative to the start of the cluster.
    elements: Range<u64>,
    /// Number of elements that the column must have in the cluster; None inside collections, where the number is
    /// unknown.
    expected: Option<u64>,
}

impl Wanted {
    fn count(&self) -> usize {
        (self.elements.end - self.elements.start) as usize
    }

    fn repeated(&self, size: usize) -> Result<Self> {
        let size = size as u64;
        let times = |number: u64| number.checked_mul(size).filter(|product| *product <= i64::MAX as u64);
        let (start, end) = (times(self.elements.start), times(self.elements.end));
        let expected = self.expected.map(times);
        match (start, end, expected) {
            (Some(start), Some(end), None) => Ok(Self { elements: start..end, expected: None }),
            (Some(start), Some(end), Some(Some(expected))) => {
                Ok(Self { elements: start..end, expected: Some(expected) })
            }
            _ => Err(FormatError::damaged(0, format!("the number of elements overflows for arrays of size {size}"))),
        }
    }

    fn inside(elements: Range<u64>) -> Self {
        Self { elements, expected: None }
    }
}

impl FieldCluster {
    /// Look up the pages of all columns of a field.
    pub fn new(form: &Form, cluster: &Cluster) -> Result<Self> {
        let mut pages = HashMap::new();
        let mut found = Ok(());
        form.each_column(&mut |column| {
            if !pages.contains_key(&column) && found.is_ok() {
                match cluster.pages(column) {
                    Ok(Some(there)) => drop(pages.insert(column, there)),
                    Ok(None) => {}
                    Err(error) => found = Err(error.in_object(format!("column {column}"))),
                }
            }
        });
        found.map(|()| Self { entries_count: cluster.entries_count(), pages })
    }

    /// The last loaded page of each column, with the page's file offset. The page may contain entries that were not
    /// requested yet.
    pub fn last_pages<'a>(&'a self, stored: &'a Stored) -> impl Iterator<Item = (u64, &'a Bytes)> {
        let part = |page: &Page| Some((page.locator.offset, stored.part(page.locator.offset)?));
        self.pages.values().filter_map(move |column| column.pages.iter().rev().find_map(part))
    }

    /// Locations of all pages, excluding suppressed columns.
    pub fn locators(&self) -> impl Iterator<Item = Locator> + '_ {
        let active = self.pages.values().filter(|column| !column.is_suppressed);
        active.flat_map(|column| column.pages.iter().map(Page::stored))
    }

    /// Memory needed to decompress the largest page, in bytes.
    pub fn largest_page_bytes(&self, schema: &Schema) -> u64 {
        let largest = |(column, pages): (&usize, &ColumnPages)| {
            let encoding = schema.columns[*column].encoding.as_ref().ok()?;
            pages.pages.iter().map(|page| pages.scratch_size(encoding, page)).max()
        };
        self.pages.iter().filter_map(largest).max().unwrap_or(0)
    }

    /// Total number of elements of all lists in the cluster; None unless the field is a list of numbers.
    pub fn run_elements(&self, schema: &Schema, form: &Form) -> Option<u64> {
        let Form::List { content, .. } = form else { return None };
        let dimensions = form.run()?.dimensions;
        let mut columns = Vec::new();
        content.each_column(&mut |column| columns.push(column));
        let active = self.active(schema, columns.iter().map(|column| (*column, *column)))?;
        let elements = self.pages.get(&active).map_or(0, ColumnPages::elements_count);
        let each = dimensions.iter().try_fold(1u64, |product, size| product.checked_mul(*size as u64))?;
        (each > 0 && elements.is_multiple_of(each)).then(|| elements / each)
    }

    /// Select the representation that is not suppressed in this cluster. Each item has the first column of a
    /// representation and the value to return.
    fn active<T>(&self, schema: &Schema, representations: impl Iterator<Item = (usize, T)>) -> Option<T> {
        let mut later = None;
        for (column, representation) in representations {
            match self.pages.get(&column) {
                Some(pages) if !pages.is_suppressed => return Some(representation),
                Some(_) => {}
                None if schema.columns[column].suppressed_before => {}
                // The column was added after this cluster was written.
                None => drop(later.get_or_insert(representation)),
            }
        }
        later
    }
}

/// A reader of a field in a cluster, with its loaded pages.
#[derive(Clone, Copy)]
pub struct FieldReader<'a> {
    /// Schema of the RNTuple.
    pub schema: &'a Schema,
    /// The form of the field's entries.
    pub form: &'a Form,
    /// The field's pages in the cluster.
    pub cluster: &'a FieldCluster,
    /// The loaded parts of the file.
    pub stored: &'a Stored,
}

static NO_PAGES: ColumnPages = ColumnPages { pages: Vec::new(), is_suppressed: false, compression: None };

impl<'a> FieldReader<'a> {
    /// The file ranges that must be loaded to decode these entries of the cluster; empty if no range is missing. Call
    /// this again after loading the ranges: if they contain the ends of collections, more ranges may be needed.
    pub fn missing(&self, entries: &Range<u64>, unpacker: &mut Unpacker<'_>) -> Result<Vec<Locator>> {
        let mut missing = Vec::new();
        if *entries == (0..self.cluster.entries_count) {
            for page in self.cluster.pages.values().flat_map(|one| &one.pages) {
                missing.extend(self.stored.missing(page)?);
            }
        } else {
            self.find_missing(self.form, self.wanted(entries), unpacker, &mut missing)?;
        }
        missing.sort_by_key(|locator| (locator.offset, locator.size));
        missing.dedup();
        Ok(missing)
    }

    /// Decompress all pages without decoding them.
    pub fn unpack(&self, unpacker: &mut Unpacker<'_>) -> Result<()> {
        self.cluster.pages.keys().try_for_each(|number| self.column(*number, None)?.unpack(unpacker))
    }

    /// Decode these entries of the cluster.
    pub fn decode(&self, entries: &Range<u64>, unpacker: &mut Unpacker<'_>) -> Result<Column> {
        self.column_of(self.form, self.wanted(entries), unpacker)
    }

    /// Decode the numbers of these entries into `values`, which must have exactly the right size.
    pub fn decode_fixed(&self, entries: &Range<u64>, unpacker: &mut Unpacker<'_>, values: &mut [u8]) -> Result<()> {
        self.numbers_to(self.form, self.wanted(entries), unpacker, values)
    }

    /// Decode all entries of a list of numbers. `offsets` receives the end of each list, shifted by `first`. `values`
    /// receives the numbers. Both buffers must have exactly the right size.
    pub fn decode_run(
        &self,
        first: i64,
        unpacker: &mut Unpacker<'_>,
        offsets: &mut [i64],
        values: &mut [u8],
    ) -> Result<()> {
        let Form::List { columns, content } = self.form else { return Err(wrong_form()) };
        let ends = self.ends(columns, &self.wanted(&(0..self.cluster.entries_count)), unpacker)?;
        for (offset, end) in offsets.iter_mut().zip(&ends[1..]) {
            *offset = first + *end as i64;
        }
        let last = ends.last().copied().unwrap_or(0);
        self.numbers_to(content, Wanted::inside(0..last), unpacker, values)
    }

    fn wanted(&self, entries: &Range<u64>) -> Wanted {
        Wanted { elements: entries.clone(), expected: Some(self.cluster.entries_count) }
    }

    /// Create a reader for the column that is not suppressed in this cluster.
    fn reader(&self, columns: &[usize], wanted: &Wanted) -> Result<ColumnReader<'a>> {
        let number = self.cluster.active(self.schema, columns.iter().map(|column| (*column, *column)));
        self.column(number.ok_or_else(all_suppressed)?, wanted.expected)
    }

    fn column(&self, number: usize, expected: Option<u64>) -> Result<ColumnReader<'a>> {
        let column = &self.schema.columns[number];
        let encoding = column.encoding.clone().map_err(FormatError::unsupported)?;
        let pages = self.cluster.pages.get(&number).unwrap_or(&NO_PAGES);
        let is_deferred = column.first_element > 0 || column.suppressed_before;
        let zeros = match expected {
            Some(expected) if is_deferred => expected.saturating_sub(pages.elements_count()),
            _ => 0,
        };
        Ok(ColumnReader { number, encoding, pages, zeros, stored: self.stored })
    }

    fn find_missing(
        &self,
        form: &Form,
        wanted: Wanted,
        unpacker: &mut Unpacker<'_>,
        missing: &mut Vec<Locator>,
    ) -> Result<()> {
        match form {
            Form::Number { columns, .. } => {
                self.add_missing(&self.reader(columns, &wanted)?, &wanted.elements, missing)
            }
            Form::Cardinality { columns } => {
                self.add_missing(&self.reader(columns, &wanted)?, &with_end_before(&wanted.elements), missing)
            }
            Form::Text { columns } | Form::Streamed { columns, .. } => {
                let [ends, bytes] = self.byte_columns(columns)?;
                match self.known_content(&self.column(ends, wanted.expected)?, &wanted, unpacker, missing)? {
                    Some(content) => self.add_missing(&self.column(bytes, None)?, &content, missing),
                    None => Ok(()),
                }
            }
            Form::Regular { size, content } => self.find_missing(content, wanted.repeated(*size)?, unpacker, missing),
            Form::List { columns, content } | Form::Option { columns, content } => {
                match self.known_content(&self.reader(columns, &wanted)?, &wanted, unpacker, missing)? {
                    Some(elements) => self.find_missing(content, Wanted::inside(elements), unpacker, missing),
                    None => Ok(()),
                }
            }
            Form::Record { members, .. } => {
                members.iter().try_for_each(|(_, one)| self.find_missing(one, wanted.clone(), unpacker, missing))
            }
            Form::Tuple(items) => {
                items.iter().try_for_each(|one| self.find_missing(one, wanted.clone(), unpacker, missing))
            }
            Form::Union { columns, contents } => {
                let reader = self.reader(columns, &wanted)?;
                let known = missing.len();
                self.add_missing(&reader, &wanted.elements, missing)?;
                if missing.len() > known {
                    return Ok(());
                }
                let switches = reader.switches(wanted.elements, unpacker)?;
                let each = contents.iter().zip(alternatives(&switches, contents.len())?);
                each.into_iter().try_for_each(|(one, alternative)| {
                    self.find_missing(one, Wanted::inside(alternative.elements), unpacker, missing)
                })
            }
        }
    }

    fn add_missing(&self, reader: &ColumnReader<'_>, elements: &Range<u64>, missing: &mut Vec<Locator>) -> Result<()> {
        reader.check(elements, 1)?;
        for page in reader.pages_of(elements) {
            missing.extend(self.stored.missing(page)?);
        }
        Ok(())
    }

    /// The range of the collections' elements. If pages with the collection ends are not loaded, adds these pages to
    /// `missing` and returns None.
    fn known_content(
        &self,
        reader: &ColumnReader<'_>,
        wanted: &Wanted,
        unpacker: &mut Unpacker<'_>,
        missing: &mut Vec<Locator>,
    ) -> Result<Option<Range<u64>>> {
        if wanted.elements.is_empty() {
            return Ok(Some(0..0));
        }
        let known = missing.len();
        let (start, end) = (wanted.elements.start, wanted.elements.end);
        self.add_missing(reader, &with_end_before(&(start..start + 1)), missing)?;
        self.add_missing(reader, &(end - 1..end), missing)?;
        // Decoding also needs the pages between the first and the last page, which contain the ends of collections.
        self.add_missing(reader, &wanted.elements, missing)?;
        if missing.len() > known {
            return Ok(None);
        }
        let mut ends = if start == 0 { vec![0] } else { Vec::new() };
        if start > 0 {
            reader.indexes(start - 1..start, unpacker, &mut ends)?;
        }
        reader.indexes(end - 1..end, unpacker, &mut ends)?;
        let (first, last) = (ends[0], ends[1]);
        if first > last {
            return Err(backwards(start));
        }
        Ok(Some(first..last))
    }

    fn byte_columns(&self, columns: &[[usize; 2]]) -> Result<[usize; 2]> {
        self.cluster.active(self.schema, columns.iter().map(|one| (one[0], *one))).ok_or_else(all_suppressed)
    }

    /// Offsets and concatenated bytes of strings or streamed objects.
    fn bytes(
        &self,
        columns: &[[usize; 2]],
        wanted: &Wanted,
        unpacker: &mut Unpacker<'_>,
    ) -> Result<(Vec<i64>, Vec<u8>)> {
        let [ends, bytes] = self.byte_columns(columns)?;
        let ends = ends_of(&self.column(ends, wanted.expected)?, wanted, unpacker)?;
        let mut all = Vec::new();
        self.column(bytes, None)?.append_numbers(content_of(&ends), Number::U8, unpacker, &mut all)?;
        Ok((offsets_of(&ends), all))
    }

    /// Start of each requested collection, followed by the end of the last collection.
    fn ends(&self, columns: &[usize], wanted: &Wanted, unpacker: &mut Unpacker<'_>) -> Result<Vec<u64>> {
        ends_of(&self.reader(columns, wanted)?, wanted, unpacker)
    }

    fn column_of(&self, form: &Form, wanted: Wanted, unpacker: &mut Unpacker<'_>) -> Result<Column> {
        let count = wanted.count();
        Ok(match form {
            Form::Number { columns, number } => {
                let mut values = Vec::new();
                self.reader(columns, &wanted)?.append_numbers(wanted.elements, *number, unpacker, &mut values)?;
                Column::Flat { dtype: number.dtype(), values }
            }
            Form::Text { columns } => {
                let (offsets, bytes) = self.bytes(columns, &wanted, unpacker)?;
                Column::Text { offsets, bytes }
            }
            Form::Streamed { columns, program } => {
                let (offsets, bytes) = self.bytes(columns, &wanted, unpacker)?;
                program.decode_streamed(&bytes, &offsets)?
            }
            Form::Cardinality { columns } => {
                let ends = self.ends(columns, &wanted, unpacker)?;
                let counts = ends.windows(2).flat_map(|pair| ((pair[1] - pair[0]) as i64).to_ne_bytes());
                Column::Flat { dtype: Number::I64.dtype(), values: counts.collect() }
            }
            Form::Regular { size, content } => {
                let content = self.column_of(content, wanted.repeated(*size)?, unpacker)?;
                Column::Regular { size: *size, content: Box::new(content) }
            }
            Form::List { columns, content } => {
                let ends = self.ends(columns, &wanted, unpacker)?;
                let content = self.column_of(content, Wanted::inside(content_of(&ends)), unpacker)?;
                Column::List { offsets: offsets_of(&ends), content: Box::new(content) }
            }
            Form::Option { columns, content } => {
                let ends = self.ends(columns, &wanted, unpacker)?;
                let valid = validity(&ends)?;
                let content = self.column_of(content, Wanted::inside(content_of(&ends)), unpacker)?;
                Column::Option { valid, content: Box::new(content) }
            }
            Form::Record { class_name, members } => {
                let read =
                    |(name, one): &(String, Form)| Ok((name.clone(), self.column_of(one, wanted.clone(), unpacker)?));
                let members = members.iter().map(read).collect::<Result<_>>()?;
                Column::Record { class_name: class_name.clone(), count, members }
            }
            Form::Tuple(items) => {
                let items = items.iter().map(|one| self.column_of(one, wanted.clone(), unpacker));
                Column::Tuple { count, items: items.collect::<Result<_>>()? }
            }
            Form::Union { columns, contents } => self.union(columns, contents, wanted, unpacker)?,
        })
    }

    fn union(
        &self,
        columns: &[usize],
        contents: &[Form],
        wanted: Wanted,
        unpacker: &mut Unpacker<'_>,
    ) -> Result<Column> {
        let switches = self.reader(columns, &wanted)?.switches(wanted.elements, unpacker)?;
        let alternatives = alternatives(&switches, contents.len())?;
        let tags: Vec<u8> = switches.iter().map(|switch| switch.tag as u8).collect();
        let none = Column::Flat { dtype: "unknown", values: Vec::new() };
        let missing_count = tags.iter().filter(|tag| **tag == 0).count();
        let mut columns = vec![Column::Option { valid: vec![0; missing_count], content: Box::new(none) }];
        for (form, Alternative { elements, order }) in contents.iter().zip(alternatives) {
            let content = self.column_of(form, Wanted::inside(elements.clone()), unpacker)?;
            let count = order.as_ref().map_or((elements.end - elements.start) as usize, Vec::len);
            let ordered = order.map(|order| reordered(&content, &order));
            let mut content = optional(ordered.unwrap_or(content));
            if let (Column::Option { valid, .. }, false) = (&mut content, matches!(form, Form::Option { .. })) {
                *valid = vec![1; count];
            }
            columns.push(content);
        }
        Ok(Column::Union { tags, contents: columns })
    }

    fn numbers_to(&self, form: &Form, wanted: Wanted, unpacker: &mut Unpacker<'_>, values: &mut [u8]) -> Result<()> {
        match form {
            Form::Number { columns, number } => {
                let reader = self.reader(columns, &wanted)?;
                reader.check(&wanted.elements, number.size())?;
                if wanted.count() * number.size() != values.len() {
                    let message =
                        format!("{} elements do not match a buffer of {} bytes", wanted.count(), values.len());
                    return Err(FormatError::internal(message));
                }
                reader.numbers(wanted.elements, *number, unpacker, values)
            }
            Form::Regular { size, content } => self.numbers_to(content, wanted.repeated(*size)?, unpacker, values),
            Form::Text { .. }
            | Form::Streamed { .. }
            | Form::Cardinality { .. }
            | Form::List { .. }
            | Form::Option { .. }
            | Form::Record { .. }
            | Form::Tuple(_)
            | Form::Union { .. } => Err(wrong_form()),
        }
    }
}

fn wrong_form() -> FormatError {
    FormatError::internal("the field cannot be decoded in place")
}

fn all_suppressed() -> FormatError {
    FormatError::damaged(0, "all representations of the field are suppressed in the cluster")
}

fn backwards(element: u64) -> FormatError {
    FormatError::damaged(0, format!("collection {element} of the cluster ends before it starts"))
}

/// Extend the range by the preceding element, which holds the start of the first collection.
fn with_end_before(elements: &Range<u64>) -> Range<u64> {
    elements.start.saturating_sub(u64::from(!elements.is_empty()))..elements.end
}

fn ends_of(reader: &ColumnReader<'_>, wanted: &Wanted, unpacker: &mut Unpacker<'_>) -> Result<Vec<u64>> {
    let elements = &wanted.elements;
    let mut ends = if elements.start == 0 || elements.is_empty() { vec![0] } else { Vec::new() };
    reader.indexes(with_end_before(elements), unpacker, &mut ends)?;
    if ends.is_sorted() {
        return Ok(ends);
    }
    let position = ends.windows(2).position(|pair| pair[0] > pair[1]).unwrap_or(0);
    Err(backwards(elements.start + position as u64))
}

fn content_of(ends: &[u64]) -> Range<u64> {
    ends.first().copied().unwrap_or(0)..ends.last().copied().unwrap_or(0)
}

/// Make the collection ends relative to the first value. The cast cannot overflow, because the elements exist.
fn offsets_of(ends: &[u64]) -> Vec<i64> {
    let first = ends.first().copied().unwrap_or(0);
    ends.iter().map(|end| (end - first) as i64).collect()
}

/// One byte per optional value: 1 if the value is present and 0 otherwise. Fails if a collection has several elements.
fn validity(ends: &[u64]) -> Result<Vec<u8>> {
    let one = |(position, pair): (usize, &[u64])| match pair[1] - pair[0] {
        count @ (0 | 1) => Ok(count as u8),
        count => {
            let message = format!("an optional value has {count} elements (at index {position} of the requested ones)");
            Err(FormatError::damaged(0, message))
        }
    };
    ends.windows(2).enumerate().map(one).collect()
}

/// The elements of one alternative that a sequence of variants refers to.
pub(super) struct Alternative {
    /// The range from the lowest to the highest referenced element.
    pub(super) elements: Range<u64>,
    /// For each variant, the index of its element, relative to the start of `elements`. None if the indexes are
    /// consecutive, as ROOT writes them.
    pub(super) order: Option<Vec<usize>>,
}

/// For each of `count` alternatives, the elements that the variants refer to.
pub(super) fn alternatives(switches: &[Switch], count: usize) -> Result<Vec<Alternative>> {
    let mut indexes: Vec<Vec<u64>> = vec![Vec::new(); count];
    for Switch { index, tag } in switches {
        let Some(place) = (*tag as usize).checked_sub(1) else { continue };
        let damaged = |what: String| FormatError::damaged(0, format!("invalid variant: {what}"));
        let of_tag = indexes.get_mut(place).ok_or_else(|| damaged(format!("tag {tag} with {count} alternatives")))?;
        if *index == u64::MAX {
            return Err(damaged(format!("element index {index}")));
        }
        of_tag.push(*index);
    }
    indexes.into_iter().map(alternative).collect()
}

/// Convert element indexes to a range and, if needed, an order.
fn alternative(indexes: Vec<u64>) -> Result<Alternative> {
    let (Some(first), Some(last)) = (indexes.iter().min().copied(), indexes.iter().max().copied()) else {
        return Ok(Alternative { elements: 0..0, order: None });
    };
    let elements = first..last + 1;
    if indexes.iter().copied().eq(elements.clone()) {
        return Ok(Alternative { elements, order: None });
    }
    let mut sorted = indexes.clone();
    sorted.sort_unstable();
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        // Otherwise, a few bytes of indexes could request any number of copies of a long list.
        return Err(FormatError::unsupported("variants that share an element are not supported"));
    }
    let order = indexes.into_iter().map(|index| (index - first) as usize).collect();
    Ok(Alternative { elements, order: Some(order) })
}
