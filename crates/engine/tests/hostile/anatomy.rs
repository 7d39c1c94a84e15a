//! Classifies the bytes of a file by the branch to which they belong, and by whether a checksum covers them.

use std::ops::Range;
use std::sync::Arc;

use branchline_format::classes::streamer::ClassInfos;
use branchline_format::compress::{Codec, Decompressor};
use branchline_format::file::directory::{Directories, Entry};
use branchline_format::file::loaded_bytes::LoadedBytes;
use branchline_format::file::{read_header, read_key_at, read_object, FileHeader, KeySizes, TKey};
use branchline_format::layout::Layout;
use branchline_format::ntuple::anchor::{read_anchor, CLASS_NAME};
use branchline_format::ntuple::envelope::{read_envelope, EnvelopeKind, Link};
use branchline_format::ntuple::footer::{read_footer, Footer};
use branchline_format::ntuple::form::standalone_form;
use branchline_format::ntuple::names::branches;
use branchline_format::ntuple::page_list::{read_page_list, Cluster};
use branchline_format::ntuple::schema::read_header as read_schema;
use branchline_format::objects::Classes;
use branchline_format::tree::kind_of;
use branchline_format::tree::{read_tree, Place, TTree};
use bytes::Bytes;

use crate::mutation::{Wrong, MOVED_BYTES_MAX};
use crate::reading::Which;

/// Size of the header of a file. `RECORD_HEADER_BYTES` is the size of a compression record's header.
const HEADER_BYTES: usize = 64;
const RECORD_HEADER_BYTES: usize = 9;
/// Size of the part of an RNTuple anchor that precedes the fields covered by the anchor's checksum.
const ANCHOR_HEAD_BYTES: u64 = 6;
/// Size of the fixed fields that precede the names in the key of a file below 2 GB. `SEEK_IN_KEY` is the offset of the
/// seek fields in such a key.
const KEY_HEAD_BYTES: usize = 26;
const SEEK_IN_KEY: usize = 18;
/// Minimum version of keys with 64-bit offsets. `BIG_FILE_VERSION` is the minimum version of files with 64-bit offsets.
const BIG_KEY_VERSION: i16 = 1000;
const BIG_FILE_VERSION: i32 = 1_000_000;
/// Offset in the header of a file below 2 GB at which the end of the file is stored. `SEEK_INFO_AT` is the offset at
/// which the location of the streamer infos is stored.
const END_AT: usize = 12;
const SEEK_INFO_AT: usize = 37;

/// A basket in the file.
struct BasketBytes {
    range: Range<usize>,
    /// The branch of the basket, and the branches whose element counts the basket holds.
    branches: Vec<Which>,
}

/// A file, with a classification of its bytes.
pub struct Anatomy {
    /// All bytes of the file.
    pub bytes: Vec<u8>,
    /// Bytes that describe other bytes: the header, keys, heads of baskets and of compression records, uncompressed
    /// trees and streamer infos, and the metadata of RNTuples.
    pub hot: Vec<Range<usize>>,
    baskets: Vec<BasketBytes>,
    /// Bytes that a verified checksum covers.
    checked: Vec<Range<usize>>,
}

/// What a case changed.
pub struct Touched {
    /// Branches whose data were changed.
    branches: Vec<Which>,
    /// Branches whose data were changed in bytes that no checksum covers.
    unchecked: Vec<Which>,
    /// Whether bytes were changed that are outside all baskets and that no checksum covers.
    pub description: bool,
    /// Whether any bytes outside all baskets were changed.
    elsewhere: bool,
}

impl Touched {
    /// Whether data of this branch were changed.
    pub fn is_in(&self, which: &Which) -> bool {
        self.branches.contains(which)
    }

    /// Whether nothing was changed on which this branch depends.
    pub fn spares(&self, which: &Which) -> bool {
        !self.elsewhere && !self.is_in(which)
    }

    /// Whether the values of this branch may differ from the original.
    pub fn may_change(&self, which: &Which) -> bool {
        self.description || self.unchecked.contains(which)
    }
}

impl Anatomy {
    /// Analyzes a file. Returns None if the unmodified file cannot be read.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let loaded = LoadedBytes::whole(Bytes::copy_from_slice(bytes));
        let header = read_header(&loaded).ok()?;
        let entries = entries_of(&loaded, &header)?;
        let mut anatomy = Self { bytes: bytes.to_vec(), hot: Vec::new(), baskets: Vec::new(), checked: Vec::new() };
        anatomy.hot.push(0..HEADER_BYTES);
        let infos = Arc::new(anatomy.add_infos(&loaded, &header).unwrap_or_default());
        let classes = Arc::new(Classes::new(Arc::clone(&infos)));
        for entry in &entries {
            anatomy.add_record(entry.key.seek, entry.key.sizes());
            if let Some(tree) = tree_of(&loaded, entry, &infos) {
                anatomy.add_tree(&entry.path, &tree, &classes);
            } else if entry.key.class_name == CLASS_NAME {
                anatomy.add_ntuple(&loaded, entry, &classes);
            }
        }
        anatomy.hot.retain(|range| range.end <= bytes.len() && !range.is_empty());
        Some(anatomy)
    }

    fn add_infos(&mut self, loaded: &LoadedBytes, header: &FileHeader) -> Option<ClassInfos> {
        let (key, plain) = infos_of(loaded, header)?;
        self.add_record(key.seek, key.sizes());
        ClassInfos::read(&plain, key.key_size).ok()
    }

    fn add_tree(&mut self, path: &str, tree: &TTree, classes: &Arc<Classes>) {
        let which = |index: usize| (path.to_string(), tree.branches[index].path.clone());
        let mut counted: Vec<Vec<Which>> = vec![Vec::new(); tree.branches.len()];
        for (index, branch) in tree.branches.iter().enumerate() {
            let count = match kind_of(branch, classes).layout() {
                Some(Layout::Run { count, .. }) => *count,
                Some(Layout::Arrays { count, .. }) => Some(*count),
                Some(Layout::Objects(program)) => program.count(),
                _ => None,
            };
            if let Some(count) = count {
                counted[count].push(which(index));
            }
        }
        for (index, branch) in tree.branches.iter().enumerate() {
            // A count branch may itself have a count branch.
            let mut branches = vec![which(index)];
            branches.extend(counted[index].iter().cloned());
            for basket in &branch.baskets {
                let Place::File { seek, size } = basket.place else { continue };
                let range = seek as usize..(seek + size) as usize;
                let Some(record) = self.bytes.get(range.clone()) else { continue };
                let mut cursor = branchline_format::cursor::Cursor::new(record);
                let Ok(key) = branchline_format::file::parse_key_sizes(&mut cursor) else { continue };
                self.add_record(seek, key);
                self.baskets.push(BasketBytes { range, branches: branches.clone() });
            }
        }
    }

    /// Marks the metadata and pages of an RNTuple. All metadata and most pages have checksums. Returns None if the
    /// RNTuple cannot be read.
    fn add_ntuple(&mut self, loaded: &LoadedBytes, entry: &Entry, classes: &Arc<Classes>) -> Option<()> {
        let mut decompressor = Decompressor::new();
        let anchor = read_anchor(&read_object(loaded, &entry.key, &mut decompressor).ok()?).ok()?;
        let fields_at = entry.key.seek + entry.key.key_size + ANCHOR_HEAD_BYTES;
        self.add_checked(fields_at, entry.key.seek + entry.key.size - fields_at);
        let mut envelope = |link: &Link, kind| {
            self.add_checked(link.locator.offset, link.locator.size);
            read_envelope(loaded, link, kind, anchor.max_key_size, &mut decompressor).ok()
        };
        let header = envelope(&anchor.header, EnvelopeKind::Header)?;
        let footer = envelope(&anchor.footer, EnvelopeKind::Footer)?;
        let Footer { schema, groups } = read_footer(&footer, &header, read_schema(&header).ok()?).ok()?;
        let lists: Option<Vec<Vec<Cluster>>> = groups
            .iter()
            .map(|group| {
                let list = envelope(&group.page_list, EnvelopeKind::PageList)?;
                read_page_list(list, group, header.checksum).ok()
            })
            .collect();
        let mut of_column: Vec<Vec<Which>> = vec![Vec::new(); schema.columns.len()];
        let classes = schema.classes(classes).ok()?;
        for branch in branches(&schema) {
            if let Ok(form) = standalone_form(&schema, &classes, branch.field) {
                form.each_column(&mut |column| of_column[column].push((entry.path.clone(), branch.path.clone())));
            }
        }
        for cluster in lists?.iter().flatten() {
            for (column, branches) in of_column.iter().enumerate() {
                for page in cluster.pages(column).ok().flatten().unwrap_or_default().pages {
                    let range = page.stored().offset as usize..(page.stored().offset + page.stored().size) as usize;
                    if page.has_checksum {
                        self.add_checked(page.stored().offset, page.stored().size);
                    }
                    self.baskets.push(BasketBytes { range, branches: branches.clone() });
                }
            }
        }
        Some(())
    }

    fn add_checked(&mut self, offset: u64, size: u64) {
        let range = offset as usize..(offset + size) as usize;
        self.hot.push(range.clone());
        self.checked.push(range);
    }

    /// Marks the key of a record, and those parts of the record's content that are compressed with a checksum.
    fn add_record(&mut self, seek: u64, key: KeySizes) {
        let start = seek as usize;
        let (data, end) = (start + key.key_size as usize, start + key.size as usize);
        self.hot.push(start..data);
        if !key.is_compressed() {
            self.hot.extend((end > data).then_some(data..end));
            return;
        }
        let mut at = data;
        while let Some(head) = self.bytes.get(at..at + RECORD_HEADER_BYTES) {
            let size = usize::from(head[3]) | usize::from(head[4]) << 8 | usize::from(head[5]) << 16;
            let codec = Codec::of_record(head);
            let next = at + RECORD_HEADER_BYTES + size;
            if codec.is_none() || next > end {
                break;
            }
            self.hot.push(at..at + RECORD_HEADER_BYTES);
            if matches!(codec, Some(Codec::Zlib | Codec::Lz4 | Codec::Lzma)) {
                self.checked.push(at..next);
            }
            at = next;
        }
    }

    /// Whether a changed record now contains a complete compressed stream from elsewhere in the file, including the
    /// checksum of that stream.
    fn is_copy(&self, record: &Range<usize>, wrong: &Wrong) -> bool {
        let stream = record.start + RECORD_HEADER_BYTES..record.end;
        let Some(new) = wrong.bytes.get(stream.clone()) else { return false };
        let can_be = (1..=MOVED_BYTES_MAX).contains(&new.len()) && new != &self.bytes[stream];
        can_be && self.bytes.windows(new.len()).any(|old| old == new)
    }

    /// Returns what a case changed in the file.
    pub fn touched(&self, wrong: &Wrong) -> Touched {
        let mut touched = Touched { branches: Vec::new(), unchecked: Vec::new(), description: false, elsewhere: false };
        let Some(ranges) = &wrong.ranges else {
            (touched.description, touched.elsewhere) = (true, true);
            return touched;
        };
        let copies: Vec<&Range<usize>> = self.checked.iter().filter(|record| self.is_copy(record, wrong)).collect();
        for at in ranges.iter().cloned().flatten().filter(|at| wrong.bytes[*at] != self.bytes[*at]) {
            let is_checked = self.checked.iter().any(|range| range.contains(&at) && !copies.contains(&range));
            let baskets: Vec<&BasketBytes> = self.baskets.iter().filter(|one| one.range.contains(&at)).collect();
            if baskets.is_empty() {
                touched.elsewhere = true;
                touched.description |= !is_checked;
            }
            for which in baskets.iter().flat_map(|one| &one.branches) {
                touched.branches.push(which.clone());
                if !is_checked {
                    touched.unchecked.push(which.clone());
                }
            }
        }
        touched
    }
}

/// Returns all keys of a fully loaded file.
fn entries_of(loaded: &LoadedBytes, header: &FileHeader) -> Option<Vec<Entry>> {
    let mut directories = Directories::new(header, loaded.file_size());
    directories.read_below("", loaded).ok()?;
    directories.entries_below("", loaded).ok()
}

fn infos_of(loaded: &LoadedBytes, header: &FileHeader) -> Option<(TKey, Vec<u8>)> {
    let key = read_key_at(loaded, header.seek_info).ok()?;
    let plain = read_object(loaded, &key, &mut Decompressor::new()).ok()?;
    Some((key, plain))
}

fn tree_of(loaded: &LoadedBytes, entry: &Entry, infos: &ClassInfos) -> Option<TTree> {
    if !matches!(entry.key.class_name.as_str(), "TTree" | "TNtuple" | "TNtupleD") {
        return None;
    }
    let plain = read_object(loaded, &entry.key, &mut Decompressor::new()).ok()?;
    read_tree(&plain, entry.key.key_size, &entry.key.class_name, infos).ok()
}

/// Returns a copy of the file whose trees and streamer infos are stored uncompressed at the end, so that mutations also
/// reach the metadata and not only the codecs. Returns None if they are already uncompressed.
pub fn laid_open(bytes: &[u8]) -> Option<Vec<u8>> {
    let loaded = LoadedBytes::whole(Bytes::copy_from_slice(bytes));
    let header = read_header(&loaded).ok()?;
    if number_at(bytes, 4) >= BIG_FILE_VERSION {
        return None;
    }
    let mut open = bytes.to_vec();
    for entry in entries_of(&loaded, &header)? {
        let is_small = bytes.get(entry.key.seek as usize + 4..).is_some_and(|at| at[0] < (BIG_KEY_VERSION >> 8) as u8);
        if matches!(entry.key.class_name.as_str(), "TTree" | "TNtuple") && is_small && entry.key.sizes().is_compressed()
        {
            let plain = read_object(&loaded, &entry.key, &mut Decompressor::new()).ok()?;
            let head = bytes[entry.key.seek as usize..][..KEY_HEAD_BYTES].to_vec();
            let places: Vec<usize> =
                (0..bytes.len() - KEY_HEAD_BYTES).filter(|at| bytes[*at..].starts_with(&head)).collect();
            let start = append_plain(&mut open, &entry.key, &plain);
            for at in places.into_iter().filter(|at| *at != entry.key.seek as usize) {
                put_number(&mut open, at, entry.key.key_size as usize + plain.len());
                put_number(&mut open, at + SEEK_IN_KEY, start);
            }
        }
    }
    if let Some((key, plain)) = infos_of(&loaded, &header).filter(|(key, _)| key.sizes().is_compressed()) {
        let start = append_plain(&mut open, &key, &plain);
        put_number(&mut open, SEEK_INFO_AT, start);
        put_number(&mut open, SEEK_INFO_AT + 4, key.key_size as usize + plain.len());
    }
    let end = open.len();
    put_number(&mut open, END_AT, end);
    (end > bytes.len()).then_some(open)
}

/// Appends an uncompressed record, and returns its offset.
fn append_plain(file: &mut Vec<u8>, key: &TKey, plain: &[u8]) -> usize {
    let start = file.len();
    file.extend_from_within(key.seek as usize..(key.seek + key.key_size) as usize);
    file.extend_from_slice(plain);
    put_number(file, start, key.key_size as usize + plain.len());
    put_number(file, start + SEEK_IN_KEY, start);
    start
}

fn number_at(bytes: &[u8], at: usize) -> i32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |raw| i32::from_be_bytes(*raw))
}

fn put_number(bytes: &mut [u8], at: usize, number: usize) {
    bytes[at..at + 4].copy_from_slice(&(number as u32).to_be_bytes());
}
