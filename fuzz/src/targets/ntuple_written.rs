//! An RNTuple that is made from nothing, as an input describes it: header, footer, page lists and pages of any
//! elements. What was written is read back as it was described.

use crate::input::Input;
use crate::memory::bounded;
use branchline_format::compress::{Codec, Compressor, Decompressor, Setting};
use branchline_format::file::loaded_bytes::LoadedBytes;
use branchline_format::ntuple::encoding::Kind;
use branchline_format::ntuple::envelope::{read_envelope, Envelope, EnvelopeKind, Link, Locator};
use branchline_format::ntuple::footer::{read_footer, ClusterGroup, Footer};
use branchline_format::ntuple::number_types::{ColumnType, ValueRange};
use branchline_format::ntuple::page_list::{read_page_list, ColumnPages, Page};
use branchline_format::ntuple::schema::{read_header, Alias, Column, Field, LaterParts, Role, Schema, TypeInfo};
use branchline_format::ntuple::write::elements::{decode, element_size, encode, reencoded};
use branchline_format::ntuple::write::envelope::NewEnvelope;
use branchline_format::ntuple::write::page::{checked, sealed, unpacked};
use branchline_format::ntuple::write::page_list::{write_page_list, NewCluster, NewColumn};
use branchline_format::ntuple::write::schema::{write_footer, write_header};
use bytes::Bytes;

/// Bytes of memory for a byte of input: a field of one byte takes 300, in several copies.
const FACTOR: usize = 8192;
const ROLES: [Role; 6] = [Role::Plain, Role::Collection, Role::Record, Role::Variant, Role::Streamer, Role::Unknown(9)];
const CODECS: [Codec; 4] = [Codec::Zlib, Codec::Lz4, Codec::Zstd, Codec::Lzma];

pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    match input.byte() % 2 {
        0 => bounded(bytes.len() + 1024, FACTOR, || described(&mut input)),
        _ => page(&mut input),
    }
}

fn setting(input: &mut Input<'_>) -> Setting {
    let codec = CODECS[usize::from(input.byte()) % CODECS.len()];
    match input.byte() % 3 {
        0 => Setting::NONE,
        _ => Setting::new(codec, 1).expect("every codec has the level 1"),
    }
}

fn text(input: &mut Input<'_>) -> String {
    String::from_utf8_lossy(input.text()).into_owned()
}

fn optional<T>(input: &mut Input<'_>, of: impl FnOnce(&mut Input<'_>) -> T) -> Option<T> {
    (input.byte() % 2 == 1).then(|| of(input))
}

fn field(input: &mut Input<'_>, number: usize, fields_count: usize) -> Field {
    let parent = usize::from(input.byte()) % fields_count;
    Field {
        name: text(input),
        type_name: text(input),
        type_alias: text(input),
        description: text(input),
        field_version: input.long(),
        type_version: input.long(),
        parent: (parent != number).then_some(parent),
        role: ROLES[usize::from(input.byte()) % ROLES.len()],
        array_size: optional(input, |input| u64::from(input.long())),
        source: optional(input, |input| usize::from(input.byte()) % fields_count),
        type_checksum: optional(input, |input| input.long()),
        later: LaterParts::default(),
        children: Vec::new(),
        columns: Vec::new(),
    }
}

fn column(input: &mut Input<'_>, fields_count: usize) -> Column {
    let number = u16::from(input.byte());
    let bits = u16::from(input.byte());
    let range = optional(input, |input| ValueRange { min: f64::from(input.long()), max: f64::from(input.long()) });
    let kind = ColumnType { number, bits, range };
    let field = usize::from(input.byte()) % fields_count;
    Column { kind, encoding: kind.encoding(), field, representation: 0, first_element: 0, suppressed_before: false }
}

fn schema(input: &mut Input<'_>) -> Schema {
    let fields_count = usize::from(input.byte() % 32) + 1;
    let columns_count = usize::from(input.byte() % 32);
    let fields = (0..fields_count).map(|number| field(input, number, fields_count)).collect();
    let columns = (0..columns_count).map(|_| column(input, fields_count)).collect();
    let alias = |input: &mut Input<'_>| Alias {
        column: usize::from(input.byte()) % columns_count,
        field: usize::from(input.byte()) % fields_count,
    };
    let aliases_count = if columns_count == 0 { 0 } else { input.byte() % 4 };
    let aliases = (0..aliases_count).map(|_| alias(input)).collect();
    let type_info = |input: &mut Input<'_>| TypeInfo {
        content: input.long(),
        type_version: input.long(),
        type_name: input.text().to_vec(),
        bytes: input.part().to_vec(),
    };
    let type_infos = (0..input.byte() % 4).map(|_| type_info(input)).collect();
    Schema { fields, columns, top: Vec::new(), type_infos, aliases }
}

/// What was written of an envelope, read as it lies in a file.
fn read(kind: EnvelopeKind, made: &NewEnvelope, setting: Setting) -> (Envelope, Link) {
    let stored = made.stored(setting, &mut Compressor::default());
    let link = made.link(Locator { offset: 0, size: stored.len() as u64 });
    let loaded = LoadedBytes::whole(Bytes::from(stored));
    match read_envelope(&loaded, &link, kind, 0, &mut Decompressor::new()) {
        Ok(envelope) => (envelope, link),
        Err(need) => panic!("what was written is refused: {need:?}"),
    }
}

fn described(input: &mut Input<'_>) {
    let setting = setting(input);
    let (name, description, wanted) = (text(input), text(input), schema(input));
    let made = write_header(&name, &description, &wanted).expect("texts and lists have room");
    let (envelope, _) = read(EnvelopeKind::Header, &made, setting);
    let header = read_header(&envelope).expect("what was written is read");
    assert_eq!((&header.name, &header.description), (&name, &description));
    assert_eq!(format!("{:?}", header.schema), format!("{wanted:?}"), "and is the same");
    let clusters = clusters(input);
    let entries_count = clusters.last().map_or(0, |last| last.entries.end);
    let list = write_page_list(made.checksum, &clusters).expect("pages have few elements");
    let (pages, link) = read(EnvelopeKind::PageList, &list, setting);
    let group = ClusterGroup { first_entry: 0, entries_count, clusters_count: clusters.len() as u32, page_list: link };
    let footer = write_footer(&made, std::slice::from_ref(&group)).expect("a group has room");
    let (footer, _) = read(EnvelopeKind::Footer, &footer, setting);
    let Footer { groups, .. } = read_footer(&footer, &envelope, header).expect("what was written is read");
    // A group without entries says nothing.
    let wanted: &[ClusterGroup] = if entries_count > 0 { std::slice::from_ref(&group) } else { &[] };
    assert_eq!(groups, wanted);
    let found = read_page_list(pages, &group, made.checksum).expect("what was written is read");
    assert_eq!(found.len(), clusters.len());
    for (one, cluster) in found.iter().zip(&clusters) {
        assert_eq!((&one.entries, one.columns_count()), (&cluster.entries, cluster.columns.len()));
        for (number, NewColumn { pages: wanted, .. }) in cluster.columns.iter().enumerate() {
            let read = one.pages(number).expect("pages are read").expect("there is the column");
            assert_eq!((&read.pages, read.is_suppressed), (&wanted.pages, wanted.is_suppressed));
        }
    }
}

fn clusters(input: &mut Input<'_>) -> Vec<NewCluster> {
    let mut start = 0;
    let columns_count = input.byte() % 8;
    let mut made = Vec::new();
    for _ in 0..input.byte() % 8 {
        let end = start + u64::from(input.long());
        let columns = (0..columns_count)
            .map(|_| NewColumn { first_element: u64::from(input.long()), pages: column_pages(input) })
            .collect();
        made.push(NewCluster { entries: start..end, columns });
        start = end;
    }
    made
}

fn column_pages(input: &mut Input<'_>) -> ColumnPages {
    if input.byte() % 8 == 7 {
        return ColumnPages { pages: Vec::new(), is_suppressed: true, compression: None };
    }
    let mut first_element = 0;
    let page = |_| {
        let elements_count = u64::from(input.short()) + 1;
        // Sizes of more than 31 bits are stored in another form.
        let size = u64::from(input.long()) << (input.byte() % 16);
        let locator = Locator { offset: u64::from(input.long()) << 8, size };
        let has_checksum = input.byte() % 2 == 1;
        let made = Page { first_element, elements_count, locator, has_checksum };
        first_element += elements_count;
        made
    };
    let pages = (0..3).map(page).collect();
    ColumnPages { pages, is_suppressed: false, compression: Some(505) }
}

/// Elements that become a page, and come back from it whole, in parts, and by way of a page of another kind.
fn page(input: &mut Input<'_>) {
    let setting = setting(input);
    let range = ValueRange { min: f64::from(input.byte()), max: f64::from(input.byte()) + 300.0 };
    let kinds: [(u16, u16); 2] =
        std::array::from_fn(|_| (u16::from(input.byte() % 0x1e), u16::from(input.byte() % 97)));
    let [one, other] =
        kinds.map(|(number, bits)| ColumnType { number, bits, range: (number == 0x1d).then_some(range) }.encoding());
    let Ok(encoding) = one else { return };
    let size = element_size(&encoding);
    let count = (input.0.len() / size).min(4096);
    let mut given = input.0[..count * size].to_vec();
    if let Kind::Quantized { .. } = encoding.kind {
        // The number of a step has no more bits than there is room for.
        let fitting = |raw: &[u8; 4]| (u32::from_ne_bytes(*raw) & (u32::MAX >> (32 - encoding.bits))).to_ne_bytes();
        given.as_chunks_mut::<4>().0.iter_mut().for_each(|raw| *raw = fitting(raw));
    }
    let Ok(plain) = encode(&encoding, &given) else { return };
    assert_eq!(plain.len() as u64, encoding.page_size(count as u64));
    let mut elements = Vec::new();
    // Bits of floats that there is no room for are gone.
    decode(&encoding, &plain, count, 0..count, &mut elements).expect("what was made is read");
    assert_eq!(encode(&encoding, &elements).expect("what was read is made"), plain);
    let mut part = Vec::new();
    let middle = count / 3..count - count / 3;
    decode(&encoding, &plain, count, middle.clone(), &mut part).expect("a part is read");
    assert_eq!(part, elements[middle.start * size..middle.end * size]);
    if count > 0 {
        let stored = sealed(&plain, setting, &mut Compressor::default());
        let locator = Locator { offset: 0, size: stored.len() as u64 - 8 };
        let page = Page { first_element: 0, elements_count: count as u64, locator, has_checksum: true };
        let compressed = checked(&stored, &page).expect("the checksum is right");
        let found =
            unpacked(compressed, &page, &encoding, &mut Decompressor::new()).expect("what was packed is unpacked");
        assert_eq!(found, plain);
    }
    let Ok(other) = other else { return };
    if other.natural() == encoding.natural()
        && element_size(&other) == size
        && let Ok(encoded) = reencoded(&encoding, &plain, count, &other)
    {
        assert_eq!(encoded.len() as u64, other.page_size(count as u64));
    }
}
