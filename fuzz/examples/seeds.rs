//! Cuts seeds for the fuzz targets out of ROOT files: `seeds CORPUS FILE...` writes one of each kind to
//! CORPUS/<target>/, under a name that its bytes give it, as long as there is room.

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use branchline_format::basket::embedded::read_basket_head;
use branchline_format::basket::BasketRecord;
use branchline_format::classes::streamer::ClassInfos;
use branchline_format::compress::{Codec, Decompressor};
use branchline_format::cursor::Cursor;
use branchline_format::file::directory::Directories;
use branchline_format::file::loaded_bytes::{DecodeError, LoadedBytes};
use branchline_format::file::{read_header, read_key_at, read_object, FileHeader};
use branchline_format::layout::Layout;
use branchline_format::ntuple::anchor::{read_anchor, CLASS_NAME};
use branchline_format::ntuple::envelope::Link;
use branchline_format::objects::Classes;
use branchline_format::tree::kind_of;
use branchline_format::tree::{read_tree, Place, TBranch};
use branchline_fuzz::classes::SUM_CLASSES;
use branchline_fuzz::input::put_part;
use branchline_fuzz::ntuple::described;
use branchline_fuzz::{baskets, classes, layouts};

/// Bytes of one seed: longer ones slow a fuzzer down.
const SEED_BYTES_MAX: usize = 32_000;
/// Bytes of all seeds of a target: they are a part of the sources.
const TARGET_BYTES_MAX: usize = 110_000;

type Answer<T> = Result<T, Box<dyn Error>>;

fn wrong(need: DecodeError) -> Box<dyn Error> {
    format!("{need:?}").into()
}

/// Seeds that were written, and which kinds of them.
struct Seeds {
    corpus: PathBuf,
    kinds: HashSet<(&'static str, String)>,
    bytes: HashMap<&'static str, usize>,
}

impl Seeds {
    /// Writes a seed, if it is small enough and the first of its kind.
    fn put(&mut self, target: &'static str, kind: String, seed: &[u8]) -> Answer<()> {
        let bytes = self.bytes.entry(target).or_default();
        if seed.len() > SEED_BYTES_MAX.min(TARGET_BYTES_MAX - *bytes) || !self.kinds.insert((target, kind)) {
            return Ok(());
        }
        *bytes += seed.len();
        let folder = self.corpus.join(target);
        std::fs::create_dir_all(&folder)?;
        let name = xxhash_rust::xxh64::xxh64(seed, 0);
        Ok(std::fs::write(folder.join(format!("{name:016x}")), seed)?)
    }

    fn put_file(&mut self, path: &Path) -> Answer<()> {
        let bytes = bytes::Bytes::from(std::fs::read(path)?);
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.put("file", name.clone(), &bytes)?;
        let loaded = LoadedBytes::whole(bytes);
        let header = read_header(&loaded).map_err(wrong)?;
        let (infos, info_bytes, info_key_size) = self.put_infos(&loaded, &header, &name)?;
        let mut decompressor = Decompressor::new();
        let classes = Arc::new(Classes::new(Arc::new(infos)));
        let mut directories = Directories::new(&header, loaded.file_size());
        directories.read_below("", &loaded)?;
        for entry in directories.entries_below("", &loaded)? {
            if entry.key.class_name == CLASS_NAME {
                let plain = read_object(&loaded, &entry.key, &mut decompressor).map_err(wrong)?;
                self.put_ntuple(&loaded, &plain, &name)?;
            }
            if let Some(class) = SUM_CLASSES.iter().position(|name| *name == entry.key.class_name) {
                let plain = read_object(&loaded, &entry.key, &mut decompressor).map_err(wrong)?;
                self.put_sum((class, &name), entry.key.key_size, info_key_size, &info_bytes, &plain)?;
            }
            if !matches!(entry.key.class_name.as_str(), "TTree" | "TNtuple") {
                continue;
            }
            let plain = read_object(&loaded, &entry.key, &mut decompressor).map_err(wrong)?;
            self.put_tree(&name, entry.key.key_size, info_key_size, &info_bytes, &plain)?;
            for branch in &read_tree(&plain, entry.key.key_size, &entry.key.class_name, classes.infos())?.branches {
                self.put_baskets(&loaded, branch, &classes)?;
            }
        }
        Ok(())
    }

    fn put_infos(
        &mut self,
        loaded: &LoadedBytes,
        header: &FileHeader,
        name: &str,
    ) -> Answer<(ClassInfos, Vec<u8>, u64)> {
        let key = read_key_at(loaded, header.seek_info).map_err(wrong)?;
        let plain = read_object(loaded, &key, &mut Decompressor::new()).map_err(wrong)?;
        let infos = ClassInfos::read(&plain, key.key_size)?;
        let mut seed = (key.key_size as u16).to_le_bytes().to_vec();
        seed.extend_from_slice(&plain);
        self.put("streamer_infos", name.to_string(), &seed)?;
        Ok((infos, plain, key.key_size))
    }

    fn put_tree(&mut self, name: &str, key_size: u64, info_key_size: u64, infos: &[u8], plain: &[u8]) -> Answer<()> {
        for (kind, with_infos) in [("alone", &[][..]), ("described", infos)] {
            let mut seed = (info_key_size as u16).to_le_bytes().to_vec();
            put_part(&mut seed, with_infos);
            seed.extend_from_slice(&(key_size as u16).to_le_bytes());
            seed.extend_from_slice(plain);
            self.put("tree", format!("{kind} {name}"), &seed)?;
        }
        Ok(())
    }

    fn put_sum(
        &mut self,
        (class, name): (usize, &str),
        key_size: u64,
        info_key_size: u64,
        infos: &[u8],
        plain: &[u8],
    ) -> Answer<()> {
        for (kind, with_infos) in [("alone", &[][..]), ("described", infos)] {
            let mut seed = (info_key_size as u16).to_le_bytes().to_vec();
            put_part(&mut seed, with_infos);
            seed.push(class as u8);
            seed.extend_from_slice(&(key_size as u16).to_le_bytes());
            put_part(&mut seed, plain);
            seed.extend_from_slice(plain);
            self.put("sums", format!("{kind} {class} {}", if kind == "alone" { "" } else { name }), &seed)?;
        }
        Ok(())
    }

    fn put_ntuple(&mut self, loaded: &LoadedBytes, anchor: &[u8], name: &str) -> Answer<()> {
        let without_checksum = [&[0], &anchor[..anchor.len() - 8]].concat();
        self.put("ntuple_envelopes", format!("anchor {name}"), &without_checksum)?;
        let anchor = read_anchor(anchor)?;
        let header = payload(loaded, &anchor.header)?;
        let footer = payload(loaded, &anchor.footer)?;
        // Flags and the header's checksum are put in front again.
        let footer = &footer[16..];
        let mut seed = vec![2];
        put_part(&mut seed, &header);
        put_part(&mut seed, footer);
        self.put("ntuple_envelopes", format!("schema {name}"), &seed)?;
        for (kind, link) in [(0, anchor.header), (1, anchor.footer)] {
            let mut seed = vec![1, 0, 0];
            let sizes = [link.locator.size, link.plain_size, anchor.max_key_size].map(|size| size as u16);
            seed.extend(sizes.iter().flat_map(|size| size.to_le_bytes()));
            seed.push(kind);
            seed.extend_from_slice(loaded.get(link.locator.offset, link.locator.size).map_err(wrong)?);
            self.put("ntuple_envelopes", format!("envelope {kind} {name}"), &seed)?;
        }
        let (_, groups, _) = described(&header, footer)?;
        for group in groups {
            let mut pages = payload(loaded, &group.page_list)?.split_off(8);
            let stored = gathered(&mut pages, loaded)?;
            let mut seed = Vec::new();
            put_part(&mut seed, &header);
            put_part(&mut seed, footer);
            put_part(&mut seed, &pages);
            seed.extend_from_slice(&stored);
            self.put("ntuple_pages", name.to_string(), &seed)?;
        }
        Ok(())
    }

    fn put_baskets(&mut self, loaded: &LoadedBytes, branch: &TBranch, classes: &Arc<Classes>) -> Answer<()> {
        let kind = kind_of(branch, classes);
        let Some(layout) = kind.layout() else { return Ok(()) };
        let mut start = Vec::new();
        let (target, kind) = match layout {
            Layout::Objects(program) => {
                let element = branch.element.clone().unwrap_or_default();
                classes::put_infos(&mut start, classes.infos(), &[&element.class_name, &element.clones_name]);
                classes::put_branch(&mut start, branch);
                ("objects", format!("{} {}", program.type_name(), element.branch_type))
            }
            layout => {
                layouts::put(&mut start, layout).ok_or("a layout of objects")?;
                ("basket", format!("{start:?}"))
            }
        };
        for basket in &branch.baskets {
            if let (Place::File { seek, size }, "objects") = (&basket.place, target) {
                let bytes = loaded.get(*seek, *size).map_err(wrong)?;
                let mut seed = start.clone();
                seed.extend([1, 0, 1]);
                put_part(&mut seed, bytes);
                seed.extend_from_slice(bytes);
                self.put("moved", kind.clone(), &seed)?;
            }
            let mut seed = start.clone();
            match &basket.place {
                Place::File { seek, size } => {
                    let bytes = loaded.get(*seek, *size).map_err(wrong)?;
                    let record = BasketRecord::parse(bytes, basket.entry_stop - basket.entry_start)?;
                    let kind = format!("{kind} {} {}", record.codec().name(), record.stores_bounds());
                    baskets::put_record(&mut seed, bytes);
                    self.put(target, kind, &seed)?;
                    self.put_records(record.codec(), bytes)?;
                }
                Place::Embedded(embedded) => {
                    baskets::put_embedded(&mut seed, embedded);
                    self.put(target, format!("embedded {kind}"), &seed)?;
                }
            }
        }
        Ok(())
    }

    /// The compression records of a basket.
    fn put_records(&mut self, codec: Codec, bytes: &[u8]) -> Answer<()> {
        if codec == Codec::None {
            return Ok(());
        }
        let (key, _) = read_basket_head(&mut Cursor::new(bytes))?;
        let mut seed = key.object_size.to_le_bytes()[..3].to_vec();
        seed.extend_from_slice(&bytes[key.key_size as usize..]);
        self.put("codecs", format!("{} {}", codec.name(), seed.len().ilog2()), &seed)
    }
}

/// The payload of an envelope.
fn payload(loaded: &LoadedBytes, link: &Link) -> Answer<Vec<u8>> {
    let stored = loaded.get(link.locator.offset, link.locator.size).map_err(wrong)?;
    let mut plain = vec![0; link.plain_size as usize];
    if link.plain_size == link.locator.size {
        plain.copy_from_slice(stored);
    } else {
        Decompressor::new().decompress_into(stored, &mut plain)?;
    }
    Ok(plain[8..plain.len() - 8].to_vec())
}

/// Bytes in front of the items of a list frame, and of a page in a page list.
const LIST_HEAD_BYTES: usize = 12;
const PAGE_BYTES: usize = 16;

/// Gathers the pages of a page list, whose places then count from the first; without checksums, which would hide what
/// is behind them. The page list begins behind the header's checksum.
fn gathered(pages: &mut [u8], loaded: &LoadedBytes) -> Answer<Vec<u8>> {
    let mut stored = Vec::new();
    let clusters_at = frame_bytes(pages, 0);
    for columns_at in items(pages, clusters_at, frame_bytes) {
        for list_at in items(pages, columns_at, frame_bytes) {
            for page_at in items(pages, list_at, |_, _| PAGE_BYTES) {
                let number = |at: usize| i32::from_le_bytes([0, 1, 2, 3].map(|byte| pages[at + byte]));
                let (elements, size) = (number(page_at).abs(), number(page_at + 4));
                let offset = [0, 1, 2, 3, 4, 5, 6, 7].map(|byte| pages[page_at + 8 + byte]);
                let bytes = loaded.get(u64::from_le_bytes(offset), size.try_into()?).map_err(wrong)?;
                pages[page_at..page_at + 4].copy_from_slice(&elements.to_le_bytes());
                pages[page_at + 8..page_at + 16].copy_from_slice(&(stored.len() as u64).to_le_bytes());
                stored.extend_from_slice(bytes);
            }
        }
    }
    Ok(stored)
}

/// Bytes of the frame that begins here.
fn frame_bytes(pages: &[u8], at: usize) -> usize {
    i64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|byte| pages[at + byte])).unsigned_abs() as usize
}

/// Where the items of the list frame begin that begins here.
fn items(pages: &[u8], list_at: usize, item_bytes: impl Fn(&[u8], usize) -> usize) -> Vec<usize> {
    let count = u32::from_le_bytes([8, 9, 10, 11].map(|byte| pages[list_at + byte]));
    let mut at = list_at + LIST_HEAD_BYTES;
    let next = |_| {
        let item = at;
        at += item_bytes(pages, at);
        item
    };
    (0..count).map(next).collect()
}

fn main() -> Answer<()> {
    let mut arguments = std::env::args().skip(1);
    let corpus = PathBuf::from(arguments.next().ok_or("no folder for the seeds is named")?);
    let mut seeds = Seeds { corpus, kinds: HashSet::new(), bytes: HashMap::new() };
    for path in arguments.map(PathBuf::from) {
        if let Err(error) = seeds.put_file(&path) {
            eprintln!("{}: {error}", path.display());
        }
    }
    Ok(())
}
