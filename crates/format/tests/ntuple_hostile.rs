//! A small RNTuple, written by this test, is read back unchanged. After random changes with corrected checksums,
//! reading returns an error or values, but never panics or uses more memory than the file size justifies.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

use branchline_format::column::Column;
use branchline_format::compress::Decompressor;
use branchline_format::error::{ErrorKind, Result as FormatResult};
use branchline_format::file::loaded_bytes::{DecodeError, LoadedBytes};
use branchline_format::ntuple::cluster::{FieldCluster, FieldReader, Scratch, Stored, Unpacker};
use branchline_format::ntuple::encoding::Encoding;
use branchline_format::ntuple::envelope::{read_envelope, EnvelopeKind, Link, Locator};
use branchline_format::ntuple::footer::{read_footer, Footer};
use branchline_format::ntuple::form::{standalone_form, Form};
use branchline_format::ntuple::names::branches;
use branchline_format::ntuple::number_types::ValueRange;
use branchline_format::ntuple::page_list::{read_page_list, Cluster};
use branchline_format::ntuple::schema::{read_header, Schema};
use branchline_format::objects::Classes;

const SEED: u64 = 7;
const ROUNDS: usize = 20_000;
/// Maximum memory for values, in bytes per byte of the file.
const MEMORY_FACTOR: usize = 2048;

fn record(payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as i64 + 8).to_le_bytes()[..], payload].concat()
}

fn list(items: &[Vec<u8>], behind: &[u8]) -> Vec<u8> {
    let payload = [&items.concat()[..], behind].concat();
    let size = -(payload.len() as i64 + 12);
    [&size.to_le_bytes()[..], &(items.len() as u32).to_le_bytes(), &payload].concat()
}

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
}

fn sealed(kind: u64, payload: &[u8]) -> Vec<u8> {
    let size = payload.len() as u64 + 16;
    let bytes = [&(kind | size << 16).to_le_bytes()[..], payload].concat();
    let checksum = xxh3_64(&bytes).to_le_bytes();
    [bytes, checksum.to_vec()].concat()
}

/// Encode a field with its parent, role, name, type, array size and source.
fn field(parent: u32, role: u16, name: &str, type_name: &str, size: Option<u64>, source: Option<u32>) -> Vec<u8> {
    let flags = u16::from(size.is_some()) | u16::from(source.is_some()) << 1;
    let mut bytes = [0u32, 0, parent].map(u32::to_le_bytes).concat();
    bytes.extend([role, flags].map(u16::to_le_bytes).concat());
    for text in [name, type_name, "", ""] {
        bytes.extend(string(text));
    }
    bytes.extend(size.map(u64::to_le_bytes).into_iter().flatten());
    bytes.extend(source.map(u32::to_le_bytes).into_iter().flatten());
    record(&bytes)
}

fn column(kind: u16, bits: u16, field: u32, first: Option<i64>, range: Option<[f64; 2]>) -> Vec<u8> {
    let flags = u16::from(first.is_some()) | u16::from(range.is_some()) << 1;
    let mut bytes = [kind, bits].map(u16::to_le_bytes).concat();
    bytes.extend(field.to_le_bytes());
    bytes.extend([flags, 0].map(u16::to_le_bytes).concat());
    bytes.extend(first.map(i64::to_le_bytes).into_iter().flatten());
    bytes.extend(range.into_iter().flatten().flat_map(f64::to_le_bytes));
    record(&bytes)
}

fn fields() -> Vec<Vec<u8>> {
    vec![
        field(0, 0, "n", "std::int32_t", None, None),
        field(1, 0, "s", "std::string", None, None),
        field(2, 1, "v", "std::vector<float>", None, None),
        field(2, 0, "_0", "float", None, None),
        field(4, 3, "u", "std::variant<std::int32_t,float>", None, None),
        field(4, 0, "_0", "std::int32_t", None, None),
        field(4, 0, "_1", "float", None, None),
        field(7, 1, "o", "std::optional<double>", None, None),
        field(7, 0, "_0", "double", None, None),
        field(9, 2, "r", "Class", None, None),
        field(9, 2, ":_0", "Base", None, None),
        field(10, 0, "x", "std::int16_t", None, None),
        field(9, 0, "a", "std::array<std::uint8_t,3>", Some(3), None),
        field(12, 0, "_0", "std::uint8_t", None, None),
        field(14, 0, "c", "ROOT::RNTupleCardinality<std::uint32_t>", None, Some(2)),
        field(15, 0, "q", "float", None, None),
        field(16, 0, "b", "bool", None, None),
    ]
}

fn columns() -> Vec<Vec<u8>> {
    let plain = [(7, 32, 0), (15, 64, 1), (2, 8, 1), (27, 64, 2), (24, 32, 3), (16, 96, 4), (7, 32, 5), (12, 32, 6)];
    let more = [(14, 32, 7), (13, 64, 8), (5, 16, 11), (4, 8, 13)];
    let all = plain.into_iter().chain(more).map(|(kind, bits, field)| column(kind, bits, field, None, None));
    let packed = [column(29, 5, 15, None, Some([0.0, 31.0])), column(0, 1, 16, None, None)];
    all.chain(packed).collect()
}

/// Uncompressed bytes and element count of one page per column, for a cluster of two entries.
fn pages(is_late_there: bool) -> Vec<(Vec<u8>, u32)> {
    let split = |values: [f32; 3]| (0..4).flat_map(|b| values.map(|v| v.to_le_bytes()[b])).collect::<Vec<u8>>();
    let switch = |index: u64, tag: u32| [&index.to_le_bytes()[..], &tag.to_le_bytes()].concat();
    let mut pages = vec![
        ([5i32, -6].map(i32::to_le_bytes).concat(), 2),
        ([2u64, 5].map(u64::to_le_bytes).concat(), 2),
        (b"hiyou".to_vec(), 5),
        // The collection ends 1 and 3, delta-encoded and byte-split.
        ([1, 2].into_iter().chain([0; 14]).collect(), 2),
        (split([1.0, 2.0, 3.0]), 3),
        ([switch(0, 2), switch(0, 1)].concat(), 2),
        (9i32.to_le_bytes().to_vec(), 1),
        (0.5f32.to_le_bytes().to_vec(), 1),
        ([1u32, 1].map(u32::to_le_bytes).concat(), 2),
        (2.5f64.to_le_bytes().to_vec(), 1),
        ([3i16, 4].map(i16::to_le_bytes).concat(), 2),
        (vec![1, 2, 3, 4, 5, 6], 6),
        (vec![0b1110_0001, 0b11], 2),
        (vec![0b10], 2),
    ];
    if is_late_there {
        pages.push(([7i64, 8].map(i64::to_le_bytes).concat(), 2));
        let objects = [streamed_named("a", "first"), streamed_named("bc", "")];
        let ends = [objects[0].len() as u64, objects.concat().len() as u64];
        pages.push((ends.map(u64::to_le_bytes).concat(), 2));
        pages.push((objects.concat(), ends[1] as u32));
    }
    pages
}

/// Encode a TNamed in the format of its ROOT streamer.
fn streamed_named(name: &str, title: &str) -> Vec<u8> {
    // Version of the TNamed, then version, unique ID and bits of the TObject.
    let mut bytes = [&[0, 1, 0, 1][..], &[0; 8]].concat();
    for text in [name, title] {
        bytes.push(text.len() as u8);
        bytes.extend(text.as_bytes());
    }
    [&(0x4000_0000 | bytes.len() as u32).to_be_bytes()[..], &bytes].concat()
}

/// The envelope payloads and the pages.
#[derive(Clone)]
struct Parts {
    header: Vec<u8>,
    footer: Vec<u8>,
    page_list: Vec<u8>,
    pages: Vec<u8>,
}

/// Encode the page lists of the clusters, and append the pages to `bytes`.
fn clusters(bytes: &mut Vec<u8>) -> Vec<Vec<u8>> {
    let mut clusters = Vec::new();
    for is_late_there in [false, true] {
        let mut columns = Vec::new();
        for (page, count) in pages(is_late_there) {
            // A negative element count means that a checksum follows the page.
            let mut place = (-(count as i32)).to_le_bytes().to_vec();
            place.extend((page.len() as u32).to_le_bytes());
            place.extend((bytes.len() as u64).to_le_bytes());
            bytes.extend(&page);
            bytes.extend(xxh3_64(&page).to_le_bytes());
            columns.push(list(&[place], &[&0u64.to_le_bytes()[..], &0u32.to_le_bytes()].concat()));
        }
        clusters.push(list(&columns, &[]));
    }
    clusters
}

fn parts() -> Parts {
    let mut header = [&0u64.to_le_bytes()[..], &string("ntuple"), &string("small"), &string("test")].concat();
    let alias = record(&[3u32, 14].map(u32::to_le_bytes).concat());
    for frame in [list(&fields(), &[]), list(&columns(), &[]), list(&[alias], &[]), list(&[], &[])] {
        header.extend(frame);
    }
    let late = list(&[field(17, 0, "d", "std::int64_t", None, None), field(18, 4, "l", "TNamed", None, None)], &[]);
    let late_columns =
        [column(9, 64, 17, Some(2), None), column(15, 64, 18, Some(2), None), column(1, 8, 18, None, None)];
    let extension = record(&[late, list(&late_columns, &[]), list(&[], &[]), list(&[], &[])].concat());
    let header_checksum = checksum_of(&sealed(1, &header));
    let mut bytes = Vec::new();
    let clusters = clusters(&mut bytes);
    let summaries = [0u64, 2].map(|first| record(&[first, 2].map(u64::to_le_bytes).concat()));
    let page_list = [&header_checksum[..], &list(&summaries, &[]), &list(&clusters, &[])].concat();
    let mut group = [0u64, 4].map(u64::to_le_bytes).concat();
    group.extend(2u32.to_le_bytes());
    let size = page_list.len() as u64 + 16;
    group.extend(size.to_le_bytes());
    group.extend((size as u32).to_le_bytes());
    group.extend((bytes.len() as u64).to_le_bytes());
    let footer = [&0u64.to_le_bytes()[..], &header_checksum, &extension, &list(&[record(&group)], &[])].concat();
    Parts { header, footer, page_list, pages: bytes }
}

fn checksum_of(envelope: &[u8]) -> Vec<u8> {
    envelope[envelope.len() - 8..].to_vec()
}

/// Encode the file (pages, page list, header, footer). Returns the file and the links to its header and footer.
fn file(parts: &Parts) -> (Bytes, Link, Link) {
    let mut bytes = parts.pages.clone();
    bytes.extend(sealed(3, &parts.page_list));
    let mut add = |envelope: Vec<u8>| {
        let (offset, size) = (bytes.len() as u64, envelope.len() as u64);
        bytes.extend(envelope);
        Link { plain_size: size, locator: Locator { offset, size } }
    };
    let header = add(sealed(1, &parts.header));
    let footer = add(sealed(2, &parts.footer));
    (bytes.into(), header, footer)
}

/// For each branch, the path and the columns: for each cluster, a column of all entries and a column of the second
/// half.
type Read = Vec<(String, Vec<Column>)>;

/// Read the schema and the clusters. Returns the first error as a string.
fn opened(parts: &Parts) -> Result<(Bytes, Schema, Vec<Cluster>), String> {
    let (bytes, header, footer) = file(parts);
    let loaded = LoadedBytes::whole(bytes.clone());
    let mut decompressor = Decompressor::new();
    let mut envelope = |link: &Link, kind| {
        read_envelope(&loaded, link, kind, 1 << 30, &mut decompressor).map_err(|error| match error {
            DecodeError::Format(error) => error.to_string(),
            DecodeError::MissingBytes { .. } => panic!("the whole file is there"),
        })
    };
    let header = envelope(&header, EnvelopeKind::Header)?;
    let footer = envelope(&footer, EnvelopeKind::Footer)?;
    let known = read_header(&header).map_err(|error| error.to_string())?;
    let Footer { schema, groups } = read_footer(&footer, &header, known).map_err(|error| error.to_string())?;
    let mut clusters = Vec::new();
    for group in &groups {
        let list = envelope(&group.page_list, EnvelopeKind::PageList)?;
        clusters.extend(read_page_list(list, group, header.checksum).map_err(|error| error.to_string())?);
    }
    Ok((bytes, schema, clusters))
}

/// Read all branches. Returns the first error as a string.
fn read(parts: &Parts) -> Result<Read, String> {
    let (bytes, schema, clusters) = opened(parts)?;
    let classes = schema.classes(&Arc::new(Classes::new(Arc::default()))).map_err(|error| error.to_string())?;
    let mut all = Vec::new();
    for branch in branches(&schema) {
        let Ok(form) = standalone_form(&schema, &classes, branch.field) else { continue };
        let columns = clusters.iter().flat_map(|cluster| read_cluster(&bytes, &schema, &form, cluster));
        let columns = columns.collect::<FormatResult<_>>().map_err(|error| {
            assert_ne!(error.kind, ErrorKind::Internal, "{error}");
            error.to_string()
        });
        all.push((branch.path, columns?));
    }
    Ok(all)
}

fn read_cluster(bytes: &Bytes, schema: &Schema, form: &Form, cluster: &Cluster) -> [FormatResult<Column>; 2] {
    let entries = cluster.entries_count();
    [0..entries, entries / 2..entries].map(|part| {
        let column = decode(bytes, schema, form, &FieldCluster::new(form, cluster)?, &part)?;
        assert!(column.size_bytes() <= MEMORY_FACTOR * bytes.len(), "{} bytes", column.size_bytes());
        Ok(column)
    })
}

fn decode(
    bytes: &Bytes,
    schema: &Schema,
    form: &Form,
    cluster: &FieldCluster,
    entries: &Range<u64>,
) -> FormatResult<Column> {
    let mut stored = Stored::new(bytes.len() as u64, 1 << 30);
    let mut decompressor = Decompressor::new();
    let mut decompress = |from: &[u8], to: &mut [u8]| decompressor.decompress_into(from, to);
    let mut scratch = Scratch::default();
    let mut unpacker = Unpacker::new(&mut decompress, &mut scratch);
    loop {
        let reader = FieldReader { schema, form, cluster, stored: &stored };
        let missing = reader.missing(entries, &mut unpacker)?;
        if missing.is_empty() {
            return reader.decode(entries, &mut unpacker);
        }
        for Locator { offset, size } in missing {
            stored.add(offset, bytes.slice(offset as usize..(offset + size) as usize));
        }
    }
}

fn values(read: &Read, path: &str) -> Vec<Column> {
    read.iter().find(|(name, _)| name == path).unwrap_or_else(|| panic!("no {path}")).1.clone()
}

fn numbers<const SIZE: usize>(dtype: &'static str, values: &[[u8; SIZE]]) -> Column {
    Column::Flat { dtype, values: values.concat() }
}

#[test]
fn what_was_written_is_read() {
    let read = read(&parts()).unwrap();
    let whole = |path: &str| values(&read, path)[0].clone();
    assert_eq!(whole("n"), numbers("i4", &[5i32, -6].map(i32::to_ne_bytes)));
    assert_eq!(whole("s"), Column::Text { offsets: vec![0, 2, 5], bytes: b"hiyou".to_vec() });
    let floats = numbers("f4", &[1.0f32, 2.0, 3.0].map(f32::to_ne_bytes));
    assert_eq!(whole("v"), Column::List { offsets: vec![0, 1, 3], content: Box::new(floats) });
    assert_eq!(whole("c"), numbers("i8", &[1i64, 2].map(i64::to_ne_bytes)));
    assert_eq!(whole("q"), numbers("f4", &[1.0f32, 31.0].map(f32::to_ne_bytes)));
    assert_eq!(whole("b"), numbers("b1", &[[0], [1]]));
    assert_eq!(whole("r.x"), numbers("i2", &[3i16, 4].map(i16::to_ne_bytes)));
    let double = numbers("f8", &[2.5f64.to_ne_bytes()]);
    assert_eq!(whole("o"), Column::Option { valid: vec![1, 0], content: Box::new(double) });
    let Column::Union { tags, contents } = whole("u") else { panic!("no union") };
    assert_eq!((tags, contents.len()), (vec![2, 1], 3));
}

#[test]
fn columns_of_a_kind_that_does_not_fit_the_field_are_refused() {
    let (_, schema, _) = opened(&parts()).unwrap();
    let classes = schema.classes(&Arc::new(Classes::new(Arc::default()))).unwrap();
    let quantized = Encoding::new(0x1d, 8, Some(ValueRange { min: 0.0, max: 1.0 }));
    for (path, column, wrong) in [("s", 1, quantized), ("u", 0, Encoding::new(0x14, 32, None))] {
        let field = branches(&schema).iter().find(|branch| branch.path == path).unwrap().field;
        assert!(standalone_form(&schema, &classes, field).is_ok());
        let mut changed = schema.clone();
        let column = schema.fields[field].columns[0][column];
        changed.columns[column].encoding = wrong;
        assert!(changed.columns[column].encoding.is_ok());
        let refused = standalone_form(&changed, &classes, field).unwrap_err();
        assert!(refused.message.contains("structure"), "{path}: {refused}");
    }
}

#[test]
fn pages_that_the_caller_did_not_fetch_and_wrong_room_are_faults_of_branchline() {
    let (bytes, schema, clusters) = opened(&parts()).unwrap();
    let classes = schema.classes(&Arc::new(Classes::new(Arc::default()))).unwrap();
    let field = branches(&schema).iter().find(|branch| branch.path == "n").unwrap().field;
    let form = standalone_form(&schema, &classes, field).unwrap();
    let cluster = FieldCluster::new(&form, &clusters[0]).unwrap();
    let mut decompressor = Decompressor::new();
    let mut decompress = |from: &[u8], to: &mut [u8]| decompressor.decompress_into(from, to);
    let mut scratch = Scratch::default();
    let mut unpacker = Unpacker::new(&mut decompress, &mut scratch);
    let stored = Stored::new(bytes.len() as u64, 1 << 30);
    let reader = FieldReader { schema: &schema, form: &form, cluster: &cluster, stored: &stored };
    for error in [
        reader.decode(&(0..2), &mut unpacker).unwrap_err(),
        reader.decode_fixed(&(0..2), &mut unpacker, &mut [0; 7]).unwrap_err(),
    ] {
        assert_eq!(error.kind, ErrorKind::Internal, "{error}");
    }
}

#[test]
fn a_column_that_came_late_has_zeros_before() {
    let read = read(&parts()).unwrap();
    let late = values(&read, "d");
    assert_eq!(late[0], numbers("i8", &[0i64, 0].map(i64::to_ne_bytes)));
    assert_eq!(late[2], numbers("i8", &[7i64, 8].map(i64::to_ne_bytes)));
}

#[test]
fn streamed_objects_are_read_and_as_new_before_they_came() {
    let read = read(&parts()).unwrap();
    let named = |column: &Column| {
        let Column::Record { class_name, members, .. } = column else { panic!("{column:?} is not a record") };
        assert_eq!(class_name.as_deref(), Some("TNamed"));
        members.iter().map(|(name, member)| (name.clone(), member.clone())).collect::<Vec<_>>()
    };
    let text = |offsets: [i64; 3], bytes: &[u8]| Column::Text { offsets: offsets.to_vec(), bytes: bytes.to_vec() };
    let late = values(&read, "l");
    let both = |name, title| vec![("fName".to_string(), name), ("fTitle".to_string(), title)];
    assert_eq!(named(&late[0]), both(text([0, 0, 0], b""), text([0, 0, 0], b"")));
    assert_eq!(named(&late[2]), both(text([0, 1, 3], b"abc"), text([0, 5, 5], b"first")));
}

#[test]
fn a_part_is_that_part_of_the_whole() {
    let read = read(&parts()).unwrap();
    let floats = numbers("f4", &[2.0f32, 3.0].map(f32::to_ne_bytes));
    assert_eq!(values(&read, "v")[1], Column::List { offsets: vec![0, 2], content: Box::new(floats) });
}

#[test]
fn parents_in_a_circle_end() {
    let mut parts = parts();
    let circle = [field(1, 2, "a", "A", None, None), field(0, 2, "b", "B", None, None)];
    let start = 8 + string("ntuple").len() + string("small").len() + string("test").len();
    parts.header.truncate(start);
    for frame in [list(&circle, &[]), list(&[], &[]), list(&[], &[]), list(&[], &[])] {
        parts.header.extend(frame);
    }
    agree(&mut parts);
    let read = read(&parts);
    // In the footer, the column that was added late belongs to field 17, which does not exist.
    assert!(read.unwrap_err().contains("field 17"));
}

/// Update the copies of the header's checksum in the footer and the page list.
fn agree(parts: &mut Parts) {
    let checksum = checksum_of(&sealed(1, &parts.header));
    parts.footer[8..16].copy_from_slice(&checksum);
    parts.page_list[..8].copy_from_slice(&checksum);
}

/// Pseudo-random numbers from a seed (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

/// Change the bytes at random: flip a bit, replace a byte, truncate, or write an extreme number.
fn change(bytes: &mut Vec<u8>, random: &mut Random) {
    let place = random.below(bytes.len());
    let extremes = [0u64, 1, u64::MAX, 1 << 31, 1 << 63, (1 << 31) - 1, 1 << 56, 0xffff_fff0];
    match random.below(9) {
        0..3 => bytes[place] ^= 1 << random.below(8),
        3..6 => bytes[place] = random.below(256) as u8,
        6 => bytes.truncate(place.max(1)),
        kind => {
            let extreme = extremes[random.below(extremes.len())].to_le_bytes();
            let size = if kind == 7 { 4 } else { 8 };
            for (to, from) in bytes[place..].iter_mut().zip(&extreme[..size]) {
                *to = *from;
            }
        }
    }
}

#[test]
fn changed_envelopes_and_pages_give_an_error_or_values() {
    let mut random = Random(SEED);
    let original = parts();
    let mut refused = 0;
    for round in 0..ROUNDS {
        let mut parts = original.clone();
        let part = match round % 4 {
            0 => &mut parts.header,
            1 => &mut parts.footer,
            2 => &mut parts.page_list,
            _ => &mut parts.pages,
        };
        for _ in 0..=random.below(3) {
            change(part, &mut random);
        }
        if round % 4 == 0 {
            agree(&mut parts);
        }
        refused += usize::from(read(&parts).is_err());
    }
    println!("{refused} of {ROUNDS} changed RNTuples were refused (seed {SEED})");
    assert!(refused > ROUNDS / 4 && refused < ROUNDS);
}
