//! An input of a merge. Its contents, except baskets and pages, are read in one pass when it is opened.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use branchline_format::file::directory::{is_directory, newest_first, Entry};
use branchline_format::file::TKey;
use branchline_format::ntuple::envelope::Locator;
use branchline_format::write::{FileFrame, ObjectPrograms};
use branchline_storage::{local_paths, was_written_to, Access};
use xxhash_rust::xxh3::{xxh3_128, Xxh3};

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::file::metadata_reader::MetadataReader;
use crate::file::File;
use crate::write::new_file::{mark_uuid, ObjectName};
use crate::write::process_ids::{ProcessId, PROCESS_ID};
use crate::write::products::kind::Opening;
use crate::write::products::list::AnyContent;
use crate::write::products::source::{stored_object, Source};
use crate::write::products::tree_input::input::{KnownTrees, UnevenBranches};
use crate::write::request::Branches;

/// Minimum version of a file in which a basket may be stored without compression, so that it is as long as its
/// decompressed bytes. ROOT treats such a basket in an older file as compressed (`TBasket::ReadBasketBuffers`).
const SHORT_BASKETS_VERSION: i32 = 30402;

/// Which parts of an input to read.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// Path of the only tree to read; None to read everything.
    pub(crate) tree: Option<&'a str>,
    /// The branches to read from each tree.
    pub(crate) branches: &'a Branches,
    pub(crate) access: &'a Access,
}

/// A file and its contents.
pub(crate) struct Input {
    pub(crate) file: Arc<File>,
    /// The items in key order, with a directory before its contents.
    pub(crate) items: Vec<Item>,
    /// The process IDs, in the order of their numbers.
    pub(crate) process_ids: Vec<ProcessId>,
    /// Messages about parts that are not merged.
    pub(crate) left_out: Vec<String>,
    /// Other messages for the user.
    pub(crate) notes: Vec<String>,
    /// A digest that changes when the file changes; 0 if the digest was not computed.
    pub(crate) identity: u128,
}

/// A key, and the content to which the key refers.
pub(crate) struct Item {
    pub(crate) entry: Entry,
    pub(crate) content: AnyContent,
}

impl Item {
    /// The item's location in the input.
    pub(crate) fn source<'a>(&'a self, file: &'a Arc<File>) -> Source<'a> {
        Source { file, entry: &self.entry }
    }
}

impl Input {
    /// Opens a file and reads all wanted parts except baskets and pages.
    pub(crate) fn open(path: &str, wanted: Wanted<'_>, known_trees: &KnownTrees) -> Result<Self> {
        let Wanted { tree, branches, access } = wanted;
        let file = File::open_to_copy(path, access, tree.is_none() && branches.is_empty())?;
        if file.recovered_count() > 0 {
            let message = "the file was never closed: the last data written to it is missing";
            return Err(ReadError::new(ReadErrorKind::BadFile, file.path(), message)
                .with_hint("leave it out with --skip-bad-files, or have ROOT recover it first"));
        }
        let (items, process_ids, left_out, notes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut input = Self { file, items, process_ids, left_out, notes, identity: 0 };
        let entries = input.newest(tree)?;
        let file = Arc::clone(&input.file);
        let mut reader = file.metadata_reader();
        let records = entries.iter().filter(|entry| !is_directory(&entry.key));
        reader.fetch_joined(records.map(|entry| Locator { offset: entry.key.seek, size: entry.key.size }))?;
        let mut programs = ObjectPrograms::new(file.class_infos());
        for entry in entries {
            if entry.key.class_name == PROCESS_ID {
                input.add_process_id(&entry, &mut reader)?;
                continue;
            }
            let (reader, programs) = (&mut reader, &mut programs);
            let mut opening = Opening { file: &file, reader, branches, known_trees, programs };
            let content = AnyContent::open(&mut opening, &entry)?;
            let remarks = content.remarks();
            input.left_out.extend(remarks.left_out);
            input.notes.extend(remarks.note);
            input.items.push(Item { entry, content });
        }
        Ok(input)
    }

    /// Returns the newest key of each name. For objects that are copied, all keys are returned, the oldest first, as in
    /// hadd.
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
        let keeps_cycles = |key: &TKey| key.class_name != PROCESS_ID && AnyContent::keeps_cycles(&self.file, key);
        let all = self.file.entries_below("")?;
        let mut places: HashMap<String, usize> = HashMap::with_capacity(all.len());
        let mut named: Vec<Vec<Entry>> = Vec::with_capacity(all.len());
        for entry in all {
            match places.get(&entry.path) {
                Some(place) => named[*place].push(entry),
                None => {
                    places.insert(entry.path.clone(), named.len());
                    named.push(vec![entry]);
                }
            }
        }
        let mut has_older = false;
        for entries in named.iter_mut().filter(|entries| entries.len() > 1) {
            newest_first(entries, |entry| entry.key.cycle);
            if entries.iter().all(|entry| keeps_cycles(&entry.key)) {
                let mut cycles = HashSet::new();
                entries.retain(|entry| cycles.insert(entry.key.cycle));
                entries.reverse();
            } else {
                entries.truncate(1);
                has_older = true;
            }
        }
        if has_older {
            self.left_out.push("older cycles of objects".to_string());
        }
        Ok(named.into_iter().flatten().collect())
    }

    /// Returns the older cycles of objects that may have several versions in an output.
    pub(crate) fn older(&self) -> Result<Vec<Item>> {
        let mut newest: HashMap<&str, Vec<i16>> = HashMap::new();
        for item in self.items.iter().filter(|item| item.content.has_versions()) {
            newest.entry(&item.entry.path).or_default().push(item.entry.key.cycle);
        }
        let mut found = Vec::new();
        if self.left_out.is_empty() {
            return Ok(found);
        }
        let (branches, known_trees) = (Branches::new(), KnownTrees::new(UnevenBranches::Unchanged));
        let mut programs = ObjectPrograms::new(self.file.class_infos());
        let mut reader = self.file.metadata_reader();
        for entry in self.file.entries_below("")? {
            if newest.get(entry.path.as_str()).is_some_and(|cycles| !cycles.contains(&entry.key.cycle)) {
                let (branches, known_trees) = (&branches, &known_trees);
                let (file, reader, programs) = (&self.file, &mut reader, &mut programs);
                let mut opening = Opening { file, reader, branches, known_trees, programs };
                let content = AnyContent::open(&mut opening, &entry)?;
                found.push(Item { entry, content });
            }
        }
        Ok(found)
    }

    /// Adds a process ID. Its name contains its number, and its title is its identity.
    fn add_process_id(&mut self, entry: &Entry, reader: &mut MetadataReader<'_>) -> Result<()> {
        let number = entry.key.name.strip_prefix("ProcessID").and_then(|number| number.parse::<usize>().ok());
        if number != Some(self.process_ids.len()) || entry.path.contains('/') {
            let message = format!("{} is not the next process ID", entry.path);
            return Err(ReadError::new(ReadErrorKind::Unsupported, self.file.path(), message));
        }
        let (name, object_size) = (ObjectName::of_key(&entry.key), entry.key.object_size);
        self.process_ids.push(ProcessId { name, object_size, stored: stored_object(reader, &entry.key)? });
        Ok(())
    }

    /// Returns the name, date, UUID, ROOT version and compression of an output whose first input is this input.
    pub(crate) fn frame(&self, output: &Path) -> FileFrame {
        let name = output.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let header = self.file.header();
        // Derive the UUID from the inputs, so that the same inputs make the same file, and different inputs get
        // different UUIDs.
        let identity: Vec<u8> = self
            .items
            .iter()
            .flat_map(|item| item.entry.key.seek.to_be_bytes().into_iter().chain(item.entry.path.bytes()))
            .collect();
        let mut uuid = xxh3_128(&[name.as_bytes(), &identity].concat()).to_be_bytes();
        mark_uuid(&mut uuid);
        let date = self.items.first().map_or(0, |item| item.entry.key.date);
        let root_version = header.version.max(SHORT_BASKETS_VERSION);
        FileFrame { name, date, uuid, root_version, compress: header.compress }
    }

    /// Computes the identity of the input: a digest that changes when the file changes; never 0.
    pub(crate) fn identify(&mut self) {
        let mut digest = Xxh3::new();
        // Local files are identified by their modification time, because device numbers may change.
        let changed = match local_paths(self.file.path()).as_slice() {
            [path] => std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok(),
            _ => None,
        };
        let version = changed.map_or_else(|| self.file.identity(), |time| Some(format!("{time:?}")));
        digest.update(format!("{} {version:?}", self.file.size_bytes()).as_bytes());
        for Item { entry: Entry { path, key }, content } in &self.items {
            for text in [path, &key.class_name, &key.title] {
                digest.update(&text.len().to_le_bytes());
                digest.update(text.as_bytes());
            }
            for number in [key.seek, key.size, u64::from(key.date), key.cycle as u64] {
                digest.update(&number.to_le_bytes());
            }
            content.hash(&mut digest);
        }
        self.identity = digest.digest128().max(1);
    }

    /// Returns an error if the file was modified after it was opened, because the copied data may then be inconsistent.
    pub(crate) fn check_unchanged(&self) -> Result<()> {
        let path = self.file.path();
        let is_changed = |identity: String| local_paths(path).iter().any(|path| was_written_to(path, &identity));
        if !self.file.identity().is_some_and(is_changed) {
            return Ok(());
        }
        let error = ReadError::new(ReadErrorKind::BadFile, path, "the file changed during the merge");
        Err(error.with_hint("merge again when no process is writing it"))
    }

    /// Estimates the maximum number of bytes that the input adds to the output.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.items.iter().fold(0, |sum, item| sum.saturating_add(item.content.size_bytes(&item.entry.key)))
    }

    /// Number of bytes of memory that the input takes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.file.whole_bytes() + self.items.iter().map(|item| item.content.memory_bytes()).sum::<u64>()
    }
}
