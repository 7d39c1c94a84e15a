//! A file that is merged: all that its keys lead to, read in one walk.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use branchline_format::compress::Decompressor;
use branchline_format::directory::{is_directory, Entry};
use branchline_format::error::{ErrorKind, FormatError};
use branchline_format::file::{read_key_at, read_object, TKey};
use branchline_format::held::{Held, Need};
use branchline_format::ntuple::anchor;
use branchline_format::ntuple::envelope::Locator;
use branchline_format::write::{adds_up, Addend, FileFrame};
use branchline_storage::{was_written_to, Access};
use bytes::Bytes;
use xxhash_rust::xxh3::{xxh3_128, Xxh3};

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::file::{File, MetadataReader};
use crate::write::merge::Branches;
use crate::write::new_file::{mark_uuid, ObjectName};
use crate::write::products::ntuple::NtupleInput;
use crate::write::products::tree::input::{KnownTrees, TreeInput, Uneven};

/// In files of older versions ROOT takes baskets that are as long as their plain bytes for compressed ones
/// (`TBasket::ReadBasketBuffers`); in files that are written here they are not.
const SHORT_BASKETS_VERSION: i32 = 30402;
/// The class by which objects know others (TRef).
const PROCESS_ID: &str = "TProcessID";

/// A file and what is in it.
pub(crate) struct Input {
    pub(crate) file: Arc<File>,
    /// In the order of its keys, a directory before what is in it.
    pub(crate) items: Vec<Item>,
    /// Its process ids by their numbers.
    pub(crate) process_ids: Vec<ProcessId>,
    /// What of it is not merged.
    pub(crate) left_out: Vec<String>,
    /// What else is to be known of it.
    pub(crate) notes: Vec<String>,
    /// Tells it from other files, and from itself when it was changed; 0 where nobody asks.
    pub(crate) identity: u128,
}

/// By whom objects are known that others refer to (TProcessID): the title of the key tells it from others.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ProcessId {
    pub(crate) about: ObjectName,
    pub(crate) object_size: u64,
    pub(crate) stored: Bytes,
}

/// What a key leads to.
pub(crate) struct Item {
    /// Directories and name, joined with `/`.
    pub(crate) path: String,
    pub(crate) key: TKey,
    pub(crate) content: Content,
}

/// What is merged of it, and how.
pub(crate) enum Content {
    Directory,
    Tree(Box<TreeInput>),
    Ntuple(Box<NtupleInput>),
    /// What adds up: its plain bytes and its numbers.
    Sum {
        plain: Vec<u8>,
        addend: Box<Addend>,
    },
    /// What is copied as it is stored; of what adds up otherwise, why it does not.
    Copy(Bytes, Option<String>),
}

fn about(key: &TKey) -> ObjectName {
    ObjectName {
        class_name: key.class_name.clone(),
        name: key.name.clone(),
        title: key.title.clone(),
        date: key.date,
        cycle: 1,
    }
}

/// The object of a key as it is stored.
fn stored(reader: &mut MetadataReader<'_>, key: &TKey) -> Result<Bytes> {
    let record = reader.until_known(|held| held.get(key.seek, key.size).map(Bytes::copy_from_slice))?;
    Ok(record.slice(key.key_size as usize..))
}

impl Item {
    /// The path of the directory that it is in.
    pub(crate) fn parent(&self) -> &str {
        self.path.strip_suffix(&self.key.name).map_or("", |parent| parent.trim_end_matches('/'))
    }

    /// The plain bytes of an object that is copied.
    pub(crate) fn plain(&self) -> branchline_format::error::Result<Vec<u8>> {
        let (key, stored) = match &self.content {
            Content::Copy(stored, _) => (&self.key, &stored[..]),
            _ => (&self.key, &[][..]),
        };
        let record = [vec![0; key.key_size as usize].as_slice(), stored].concat();
        let mut held = Held::new(key.seek.saturating_add(key.size));
        held.add(key.seek, Bytes::from(record));
        read_object(&held, key, &mut Decompressor::new()).map_err(|need| match need {
            Need::Nothing(error) => error,
            Need::Bytes { offset, .. } => FormatError::damaged(offset, "the record is cut short"),
        })
    }

    /// What a key says of it.
    pub(crate) fn about(&self) -> ObjectName {
        about(&self.key)
    }
}

impl Input {
    /// Opens a file and reads all of it but baskets: everything, or only the tree with this path.
    pub(crate) fn open(
        path: &str,
        tree: Option<&str>,
        (branches, known): (&Branches, &KnownTrees),
        access: &Access,
    ) -> Result<Self> {
        let file = File::open_to_copy(path, access, tree.is_none() && branches.is_empty())?;
        if file.recovered_count() > 0 {
            let message = "the file was never closed: what was written to it last is missing";
            return Err(ReadError::new(ReadErrorKind::BadFile, file.path(), message)
                .with_hint("leave it out with --skip-bad-files, or have ROOT recover it first"));
        }
        let (items, process_ids, left_out, notes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut input = Self { file, items, process_ids, left_out, notes, identity: 0 };
        let entries = input.newest(tree)?;
        let file = Arc::clone(&input.file);
        let mut reader = file.metadata_reader();
        let records = entries.iter().filter(|entry| !is_directory(&entry.key));
        reader.fetch(records.map(|entry| Locator { offset: entry.key.seek, size: entry.key.size }))?;
        for entry in entries {
            if entry.key.class_name == PROCESS_ID {
                input.add_process_id(&entry, &mut reader)?;
                continue;
            }
            let content = content_of(&file, &entry, (branches, known), &mut reader)?;
            match &content {
                Content::Ntuple(ntuple) => input.left_out.extend(ntuple.left_out()),
                Content::Tree(tree) => input.notes.extend(tree.note.clone()),
                _ => {}
            }
            input.items.push(Item { path: entry.path, key: entry.key, content });
        }
        Ok(input)
    }

    /// Its keys, of each name the one with the highest cycle; of objects that are copied all, the oldest first, as hadd
    /// keeps them.
    fn newest(&mut self, tree: Option<&str>) -> Result<Vec<Entry>> {
        if let Some(path) = tree {
            let entry = self.file.find_tree(Some(path))?;
            let all = self.file.entries_below("")?;
            let leads_there = |path: &str| entry.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
            let mut kept: Vec<Entry> = all
                .iter()
                .filter(|one| is_directory(&one.key) && leads_there(&one.path) || one.key.class_name == PROCESS_ID)
                .cloned()
                .collect();
            kept.push(entry);
            return Ok(kept);
        }
        let all = self.file.entries_below("")?;
        let mut places: HashMap<String, usize> = HashMap::with_capacity(all.len());
        let mut kept: Vec<Vec<Entry>> = Vec::with_capacity(all.len());
        let mut has_older = false;
        for entry in all {
            let place = *places.entry(entry.path.clone()).or_insert(kept.len());
            match kept.get_mut(place) {
                None => kept.push(vec![entry]),
                Some(others) if self.is_copied(&entry.key) && others.iter().all(|one| self.is_copied(&one.key)) => {
                    let is_new = others.iter().all(|one| one.key.cycle != entry.key.cycle);
                    let newer = others.partition_point(|one| one.key.cycle < entry.key.cycle);
                    others.splice(newer..newer, is_new.then_some(entry));
                }
                Some(others) => {
                    has_older = true;
                    if others.iter().all(|one| one.key.cycle < entry.key.cycle) {
                        *others = vec![entry];
                    }
                }
            }
        }
        if has_older {
            self.left_out.push("older cycles of objects".to_string());
        }
        Ok(kept.into_iter().flatten().collect())
    }

    /// Whether objects of this key's class are copied: they are no trees, and do not add up.
    fn is_copied(&self, key: &TKey) -> bool {
        let is_other = is_directory(key) || key.class_name == anchor::CLASS_NAME || key.class_name == PROCESS_ID;
        !is_other && !self.file.is_tree(key) && !adds_up(&key.class_name, self.file.class_infos())
    }

    /// Older cycles of objects that are no trees: versions of an output.
    pub(crate) fn older(&self) -> Result<Vec<Item>> {
        let objects = self.items.iter().filter(|item| matches!(item.content, Content::Copy(..) | Content::Sum { .. }));
        let mut newest: HashMap<&str, Vec<i16>> = HashMap::new();
        objects.for_each(|item| newest.entry(&item.path).or_default().push(item.key.cycle));
        let mut reader = self.file.metadata_reader();
        let mut found = Vec::new();
        if self.left_out.is_empty() {
            return Ok(found);
        }
        for entry in self.file.entries_below("")? {
            if newest.get(entry.path.as_str()).is_some_and(|cycles| !cycles.contains(&entry.key.cycle)) {
                let content =
                    content_of(&self.file, &entry, (&Branches::new(), &KnownTrees::new(Uneven::Kept)), &mut reader)?;
                found.push(Item { path: entry.path, key: entry.key, content });
            }
        }
        Ok(found)
    }

    /// Process ids have their number in their name, and their identity in the title.
    fn add_process_id(&mut self, entry: &Entry, reader: &mut MetadataReader<'_>) -> Result<()> {
        let number = entry.key.name.strip_prefix("ProcessID").and_then(|number| number.parse::<usize>().ok());
        if number != Some(self.process_ids.len()) || entry.path.contains('/') {
            let message = format!("{} is not the process id that comes next", entry.path);
            return Err(ReadError::new(ReadErrorKind::Unsupported, self.file.path(), message));
        }
        let (about, object_size, stored) = (about(&entry.key), entry.key.object_size, stored(reader, &entry.key)?);
        self.process_ids.push(ProcessId { about, object_size, stored });
        Ok(())
    }

    /// What stands around the records of a file that is made from this one.
    pub(crate) fn frame(&self, output: &Path) -> FileFrame {
        let name = output.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let header = self.file.header();
        // The same inputs make the same file, and other files have other numbers.
        let identity: Vec<u8> = self
            .items
            .iter()
            .flat_map(|item| item.key.seek.to_be_bytes().into_iter().chain(item.path.bytes()))
            .collect();
        let mut uuid = xxh3_128(&[name.as_bytes(), &identity].concat()).to_be_bytes();
        mark_uuid(&mut uuid);
        let date = self.items.first().map_or(0, |item| item.key.date);
        let root_version = header.version.max(SHORT_BASKETS_VERSION);
        FileFrame { name, date, uuid, root_version, compress: header.compress }
    }

    /// Notes what tells it from other files, and from itself when it was changed; never 0.
    pub(crate) fn identify(&mut self) {
        let mut all = Xxh3::new();
        // A device may have another number tomorrow, a file that is near is told by its time.
        let changed = std::fs::metadata(self.file.path()).and_then(|about| about.modified());
        let version = changed.map_or_else(|_| self.file.identity(), |time| Some(format!("{time:?}")));
        all.update(format!("{} {version:?}", self.file.size_bytes()).as_bytes());
        for Item { path, key, content } in &self.items {
            let about = (path, key.seek, key.size, key.date, key.cycle, &key.class_name, &key.title);
            all.update(format!("{about:?}").as_bytes());
            match content {
                Content::Tree(tree) => all.update(&tree.plain),
                Content::Sum { plain, .. } => all.update(plain),
                Content::Copy(stored, _) => all.update(stored),
                Content::Ntuple(ntuple) => all.update(&ntuple.identity().to_be_bytes()),
                Content::Directory => {}
            }
        }
        self.identity = all.digest128().max(1);
    }

    /// Refuses what was written to since it was opened: a part of what was copied may be from before, and a part not.
    pub(crate) fn check_unchanged(&self) -> Result<()> {
        let path = self.file.path();
        if !self.file.identity().is_some_and(|identity| was_written_to(Path::new(path), &identity)) {
            return Ok(());
        }
        let error = ReadError::new(ReadErrorKind::BadFile, path, "the file changed while it was merged");
        Err(error.with_hint("merge again when nobody writes it any more"))
    }

    /// The plain bytes of its list of streamer infos, and the size of the key in front of it.
    pub(crate) fn info_list(&self) -> Result<Option<(Vec<u8>, u64)>> {
        let header = self.file.header();
        if header.seek_info == 0 || header.info_size == 0 {
            return Ok(None);
        }
        let mut reader = self.file.metadata_reader();
        let key = reader.until_known(|held| read_key_at(held, header.seek_info))?;
        let mut decompressor = Decompressor::new();
        let plain = reader.until_known(|held| read_object(held, &key, &mut decompressor))?;
        Ok(Some((plain, key.key_size)))
    }

    /// About the bytes that it adds to the output, at most.
    pub(crate) fn size_bytes(&self) -> u64 {
        let of = |item: &Item| match &item.content {
            Content::Tree(tree) => tree.size_bytes(),
            Content::Ntuple(ntuple) => ntuple.size_bytes(),
            Content::Directory => 100,
            Content::Sum { .. } | Content::Copy(..) => item.key.size,
        };
        self.items.iter().map(of).sum()
    }

    /// Bytes of memory that it takes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let of = |item: &Item| match &item.content {
            Content::Tree(tree) => tree.memory_bytes(),
            Content::Ntuple(ntuple) => ntuple.memory_bytes(),
            Content::Sum { plain, .. } => 3 * plain.len() as u64,
            Content::Copy(stored, _) => stored.len() as u64,
            Content::Directory => 0,
        };
        self.file.whole_bytes() + self.items.iter().map(of).sum::<u64>()
    }
}

fn content_of(
    file: &Arc<File>,
    entry: &Entry,
    (branches, known): (&Branches, &KnownTrees),
    reader: &mut MetadataReader<'_>,
) -> Result<Content> {
    let key = &entry.key;
    let named = |error: &branchline_format::error::FormatError| {
        ReadError::from_format(file.path(), &error.clone().in_object(format!("{} {}", key.class_name, entry.path)))
    };
    if is_directory(key) {
        return Ok(Content::Directory);
    }
    if key.class_name == anchor::CLASS_NAME {
        let wanted = branches.get(&entry.path);
        return NtupleInput::open(file, entry, wanted).map(|ntuple| Content::Ntuple(Box::new(ntuple)));
    }
    let is_tree = file.is_tree(key);
    if !is_tree && !adds_up(&key.class_name, file.class_infos()) {
        return stored(reader, key).map(|stored| Content::Copy(stored, None));
    }
    let mut decompressor = Decompressor::new();
    let plain = reader.until_known(|held| read_object(held, key, &mut decompressor))?;
    if is_tree {
        let wanted = branches.get(&entry.path);
        return TreeInput::new(file, &entry.path, key, plain, (wanted, known))
            .map(|tree| Content::Tree(Box::new(tree)));
    }
    match Addend::new(&plain, key.key_size, &key.class_name, file.class_infos()) {
        Ok(addend) => Ok(Content::Sum { plain, addend: Box::new(addend) }),
        // Each version is kept.
        Err(error) if error.kind == ErrorKind::Unsupported => {
            stored(reader, key).map(|stored| Content::Copy(stored, Some(error.message)))
        }
        Err(error) => Err(named(&error)),
    }
}
