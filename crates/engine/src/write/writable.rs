//! A file that a program fills with directories, objects, trees and RNTuples. It is either a new file or an existing
//! file that is extended.

mod copied_tree;
mod listing;
mod resumed;

use std::collections::{HashMap, HashSet};
use std::path::Path;

use branchline_format::compress::Setting;
use branchline_format::error::FormatError;
use branchline_format::write::object::classes::{joined_infos, Described};
use branchline_format::write::tree::tree_record::BranchKind;
use branchline_format::write::{Changes, FileFrame, InfoList, ObjectPrograms, Recording};
use branchline_storage::Access;
use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_128;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::file::File;
use crate::limits;
use crate::write::columns::{
    Filled, Layout, NamedColumn, NewColumns, OpenColumns, OpenNtuple, OpenTree, Shown, Values, ROOT_VERSION,
};
use crate::write::merge::info_lists::{info_list, OwnedInfoList};
use crate::write::new_file::{mark_uuid, NewFile, ObjectName, SlotId, Spacing, DIRECTORY, TOP};
use crate::write::output::Output;
use crate::write::process_ids::{ProcessIds, PROCESS_ID};
use crate::write::products::output::MergeOutput;
use crate::write::writable::copied_tree::{Copied, Target, TreeCopier};
pub use crate::write::writable::listing::Listed;
use crate::write::writable::listing::Listing;

/// An object whose bytes the caller provides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewObject {
    /// The class name. The class must be covered by a list of `Described`.
    pub class_name: String,
    /// The name by which the object is found.
    pub name: String,
    /// The title.
    pub title: String,
    /// The streamed bytes. They start with the object's byte count, and must not refer to other objects.
    pub bytes: Bytes,
}

/// Changes to make in the copy of an object: its title, and the numbers of a histogram, keyed by member name.
#[derive(Debug, Clone, Default)]
pub struct Differences {
    /// The new title.
    pub title: Option<String>,
    /// New numbers, keyed by member name; `cells` stands for the bin contents.
    pub numbers: Vec<(String, Vec<f64>)>,
}

/// The result of copying a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedTree {
    /// The cycle of the copy.
    pub cycle: i16,
    /// Messages about parts of the tree that were not copied.
    pub left_out: Vec<String>,
}

/// A new tree or RNTuple.
#[derive(Debug, Clone)]
pub struct NewTable<'a> {
    /// The name.
    pub name: String,
    /// The title or description.
    pub title: String,
    /// The layout.
    pub layout: Layout,
    /// The branches or fields. Only the types of their values matter.
    pub fields: Vec<NamedColumn<'a>>,
    /// Compression settings of TTree branches, keyed by branch name, where the settings differ from the layout.
    pub codecs: HashMap<String, Setting>,
    /// Projected fields of an RNTuple, which show parts of collections; None for a TTree.
    pub ntuple: Option<Vec<Shown>>,
}

/// A file that is being written. After the first `publish`, it has its final name and is valid at all times. If it is
/// dropped before that, the file is removed.
pub struct WritableFile {
    output: MergeOutput,
    process_ids: ProcessIds,
    date: u32,
    listed: Listing,
    open: Vec<Option<OpenTable>>,
    described: Described,
    infos: Vec<OwnedInfoList>,
    digests: HashSet<u128>,
    /// The classes in the published streamer infos.
    published_infos: Option<(usize, Described)>,
    /// Whether there are unpublished changes.
    has_news: bool,
}

/// A tree or an RNTuple that is being filled.
struct OpenTable {
    path: String,
    cycle: i16,
    slot: SlotId,
    columns: Box<dyn OpenColumns>,
    entries_count: u64,
    published: Option<PublishedTable>,
    /// Whether entries were added to some branches but not to all.
    is_broken: bool,
}

/// The last published state of a tree or an RNTuple.
#[derive(Debug, Clone, Copy)]
struct PublishedTable {
    filled: Filled,
    /// Size of the records that the next publication will supersede, in bytes.
    bytes: u64,
}

impl OpenTable {
    /// Whether all entries are published.
    fn is_published(&self) -> bool {
        self.published.is_some_and(|published| published.filled.entries_count == self.entries_count)
    }
}

impl WritableFile {
    /// Creates a file with this default compression. `date` is the creation time, packed as a TDatime.
    pub fn create(path: &Path, replace: bool, setting: Setting, date: u32) -> Result<Self> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut uuid = xxh3_128(format!("{name} {date}").as_bytes()).to_be_bytes();
        mark_uuid(&mut uuid);
        let frame = FileFrame { name, date, uuid, root_version: ROOT_VERSION, compress: setting.as_root() };
        let output = Output::create(path, replace, &[])?;
        Ok(Self::of(NewFile::begin(output, frame)?, date))
    }

    /// Starts with a copy of a file that can be extended. The copy replaces the file when it is published.
    pub fn update(path: &Path, setting: Option<Setting>, date: u32) -> Result<Self> {
        let old = File::open(&path.display().to_string(), &Access::default())?;
        if old.recovered_count() > 0 {
            let message = "the file was never closed, so it cannot be extended";
            let error = ReadError::new(ReadErrorKind::Output, old.path(), message);
            return Err(error.with_hint("merge it into a new file first: branchline merge"));
        }
        let mut output = Output::create(path, true, &[])?;
        output.begin_as_copy_of(path)?;
        let compress = setting.map_or(old.compress(), Setting::as_root);
        let mut made = Self::of(NewFile::continued(output, &old, compress, date)?, date);
        for (path, place, name) in made.output.file.list_old(&old)? {
            let ObjectName { class_name, title, cycle, .. } = name;
            made.listed.push(Listed { path, cycle, class_name, title }, Some(place));
        }
        // The numbers of the process IDs may have gaps.
        let numbers = made.listed().filter(|listed| listed.class_name == PROCESS_ID);
        let numbers = numbers.filter_map(|listed| listed.path.strip_prefix("ProcessID")?.parse::<usize>().ok());
        made.process_ids = ProcessIds::behind(numbers.max().map_or(0, |last| last.saturating_add(1)));
        made.describe(&old)?;
        Ok(made)
    }

    fn of(file: NewFile, date: u32) -> Self {
        let (listed, open, infos) = (Listing::default(), Vec::new(), Vec::new());
        let output = MergeOutput { file, codec: None, rewriters: HashMap::new(), programs: None, is_torn: false };
        let (process_ids, described, digests) = (ProcessIds::behind(0), Described::default(), HashSet::new());
        let (published_infos, has_news) = (None, false);
        Self { output, process_ids, date, listed, open, described, infos, digests, published_infos, has_news }
    }

    /// The objects and directories of the file, in the order in which they were written.
    pub fn listed(&self) -> impl Iterator<Item = &Listed> {
        self.listed.iter().map(|(listed, _)| listed)
    }

    /// Creates a directory and its parents, unless they exist.
    pub fn add_directory(&mut self, names: &[String]) -> Result<()> {
        self.directory(names).map(|_| ())
    }

    /// Writes an object into a directory, which is created if necessary. Returns the object's cycle.
    pub fn add(&mut self, directories: &[String], object: NewObject) -> Result<i16> {
        let NewObject { class_name, name, title, bytes } = object;
        let is_graph = class_name.starts_with("TGraph") || matches!(class_name.as_str(), "TProfile2D" | "TProfile3D");
        let is_grid = class_name.starts_with("THn") || class_name == "TEfficiency";
        self.described.graphs |= is_graph;
        self.described.grids |= is_grid;
        let is_string = class_name == "TObjString";
        self.described.strings |= is_string;
        self.described.objects |= !is_graph && !is_string;
        self.write(directories, class_name, name, title, |_| Ok(bytes))
    }

    /// Copies an object from another file with a new name and with these changes. Returns the cycle of the copy.
    pub fn copy(
        &mut self,
        source: &File,
        path: &str,
        (directories, name): (&[String], &str),
        differences: &Differences,
    ) -> Result<i16> {
        let key = source.find_object(path)?;
        let is_directory = matches!(key.class_name.as_str(), "TDirectory" | "TDirectoryFile");
        if is_directory || source.is_tree(&key) {
            let message = format!("{path:?} is a {}, which cannot be copied as an object", key.class_name);
            let error = ReadError::new(ReadErrorKind::Unsupported, source.path(), message);
            return Err(error.with_hint("use branchline merge or skim to copy trees and whole files"));
        }
        let named = |error: FormatError| {
            ReadError::from_format(source.path(), &error.in_object(format!("{} {path}", key.class_name)))
        };
        let plain = source.metadata_reader().object(&key)?;
        let infos = source.class_infos();
        let recording = Recording::of_object(&plain, key.key_size, &key.class_name, &mut ObjectPrograms::new(infos));
        let recording = recording.map_err(named)?;
        let mut changes = Changes::new();
        let Differences { title, numbers } = differences;
        if name != key.name || title.is_some() {
            let names = (name, title.as_deref());
            let bases = infos.first_bases(&key.class_name);
            let is_renamed = changes.rename(&recording, &bases, &key.name, names).map_err(named)?;
            if !is_renamed && title.is_some() {
                return Err(named(FormatError::unsupported("it has no title to change")));
            }
        }
        for (member, values) in numbers {
            changes.histogram(&recording, member, values).map_err(named)?;
        }
        self.describe(source)?;
        let title = title.clone().unwrap_or_else(|| key.title.clone());
        self.write(directories, key.class_name.clone(), name.to_string(), title, |key_size| {
            recording.emit(key_size, &changes).map_err(named)
        })
    }

    /// Copies a tree or an RNTuple from another file with a new name. The copied baskets or pages have the compression
    /// `setting`. `check` is called repeatedly, and may abort the copy with an error. If the copy fails, nothing of it
    /// remains in the file.
    pub fn copy_tree(
        &mut self,
        source: &File,
        path: &str,
        (directories, name): (&[String], &str),
        setting: Setting,
        check: &mut dyn FnMut() -> Result<()>,
    ) -> Result<CopiedTree> {
        let directory = self.directory(directories)?;
        let place = path_of(directories, name);
        let cycle = self.next_cycle(&place)?;
        let target = Target { path: place, name, cycle };
        let mut copier = TreeCopier { output: &mut self.output, process_ids: &mut self.process_ids, check };
        let Copied { name, process_ids, left_out } = copier.copy(source, path, &target, setting)?;
        for ObjectName { class_name, name, title, cycle, .. } in process_ids {
            self.listed.push(Listed { path: name, cycle, class_name, title }, None);
        }
        let listed = Listed { path: target.path, cycle, class_name: name.class_name, title: name.title };
        self.listed.push(listed, self.output.file.last_slot(directory));
        self.has_news = true;
        self.describe(source)?;
        Ok(CopiedTree { cycle, left_out })
    }

    /// Starts a tree or an RNTuple. Returns its index, which `fill` expects.
    pub fn add_table(&mut self, directories: &[String], table: NewTable<'_>) -> Result<usize> {
        let directory = self.directory(directories)?;
        let NewTable { name, title, layout, fields, codecs, ntuple } = table;
        let path = path_of(directories, &name);
        let cycle = self.next_cycle(&path)?;
        let (description, date) = (title.clone(), self.date);
        let new = NewColumns { directory, name, description, cycle, date, layout, codecs };
        let (columns, class_name): (Box<dyn OpenColumns>, _) = match ntuple {
            Some(shown) => (Box::new(OpenNtuple::begin(&mut self.output.file, new, &fields, &shown)?), "ROOT::RNTuple"),
            None => {
                // Strings get the format in which uproot writes them and which ROOT reads into a `char[]`.
                let tree = OpenTree::begin(&mut self.output.file, new, &fields, &BranchKind::Characters)?;
                (Box::new(tree), "TTree")
            }
        };
        match class_name {
            "TTree" => self.described.trees = true,
            _ => self.described.ntuples = true,
        }
        let listed = Listed { path: path.clone(), cycle, class_name: class_name.to_string(), title };
        let Some(slot) = self.output.file.last_slot(directory) else {
            return Err(ReadError::internal(&self.output.file.path(), format!("tree {path} has no slot for its key")));
        };
        self.listed.push(listed, Some(slot));
        let (entries_count, published, is_broken) = (0, None, false);
        self.open.push(Some(OpenTable { path, cycle, slot, columns, entries_count, published, is_broken }));
        Ok(self.open.len() - 1)
    }

    /// Adds entries to a tree or an RNTuple.
    pub fn fill(&mut self, table: usize, values: &[Values<'_>], count: usize) -> Result<()> {
        match self.open.get_mut(table) {
            Some(Some(OpenTable { is_broken: true, path, .. })) => {
                let message = format!("tree {path} is incomplete: adding entries to it failed before");
                Err(self.refused(&message))
            }
            Some(Some(open)) => {
                let filled = open.columns.fill(&mut self.output.file, values, count);
                open.is_broken = filled.is_err();
                open.entries_count += count as u64;
                filled
            }
            _ => Err(self.refused("this tree is removed or finished")),
        }
    }

    /// Finishes a tree or an RNTuple before the whole file is finished.
    pub fn end(&mut self, table: usize) -> Result<Filled> {
        match self.open.get_mut(table).and_then(Option::take) {
            Some(open) => {
                self.has_news = true;
                self.finish_table(open)
            }
            None => Err(self.refused("this tree is removed or finished")),
        }
    }

    /// Removes the objects at this path: all cycles if `cycle` is None, or else only that cycle. Their bytes remain in
    /// the file, but nothing refers to them.
    pub fn remove(&mut self, path: &str, cycle: Option<i16>) -> Result<()> {
        let is_chosen = |of: i16| cycle.is_none_or(|cycle| of == cycle);
        if self.output.file.directory(path).is_some() {
            let error = self.refused(&format!("{path} is a directory, which cannot be removed"));
            return Err(error.with_hint("remove the objects in it"));
        }
        let Some(slots) = self.listed.remove(path, is_chosen) else {
            let message = format!("there is no object {path:?}");
            return Err(ReadError::new(ReadErrorKind::NoSuchKey, &self.output.file.path(), message));
        };
        slots.into_iter().for_each(|slot| self.output.file.remove(slot));
        self.has_news = true;
        for open in &mut self.open {
            if open.as_ref().is_some_and(|open| open.path == path && is_chosen(open.cycle)) {
                *open = None;
            }
        }
        Ok(())
    }

    /// Whether the file has its final name.
    pub fn is_published(&mut self) -> bool {
        self.output.file.output().is_published()
    }

    /// Publishes everything that is finished. From then on, the file has its final name, is valid, and contains all
    /// objects and the current entries of all trees. If a tree was published before, its new entries may be published
    /// later, see `is_due`. If publishing fails, the file keeps its last published state.
    pub fn publish(&mut self) -> Result<()> {
        let due: Vec<usize> = (0..self.open.len()).filter(|table| self.is_due(*table)).collect();
        if due.is_empty() && !self.has_news {
            return Ok(());
        }
        for table in due {
            self.publish_table(table)?;
        }
        self.write_frame(Spacing::Roomy)?;
        let output = self.output.file.output();
        if !output.is_published() {
            if output.replaces_now() {
                output.sync()?;
            }
            output.publish()?;
        }
        self.has_news = false;
        Ok(())
    }

    /// Whether the new entries of a tree should be published now. Publishing turns the tree's previous records into
    /// wasted space, which is limited to a fraction of the file, so that frequent small additions remain cheap. The
    /// limit does not apply when a small tree has doubled in size.
    fn is_due(&self, table: usize) -> bool {
        let Some(Some(open)) = self.open.get(table) else { return false };
        if open.is_broken || open.is_published() {
            return false;
        }
        let Some(published) = open.published else { return true };
        let superseded = self.output.file.superseded_bytes();
        let used = self.output.file.end() - superseded;
        let is_little =
            superseded + published.bytes <= used.min(limits::SUPERSEDED_BYTES) + used / limits::SUPERSEDED_DIVISOR;
        let is_doubled = open.entries_count / 2 >= published.filled.entries_count;
        is_little || is_doubled && published.bytes <= limits::SUPERSEDED_BYTES
    }

    /// Writes the records of a tree with all its entries. If this fails, the tree keeps its last published state.
    fn publish_table(&mut self, table: usize) -> Result<()> {
        let Some(Some(open)) = self.open.get_mut(table) else { return Ok(()) };
        let file = &mut self.output.file;
        if let Err(error) = open.columns.write_full(file) {
            open.is_broken = true;
            return Err(error);
        }
        let (mark, slot) = (file.mark(), file.slot(open.slot));
        match open.columns.snapshot(file) {
            Ok(filled) => {
                file.supersede(open.published.map_or(0, |before| before.bytes));
                open.published = Some(PublishedTable { filled, bytes: file.end() - mark.end() });
                Ok(())
            }
            Err(error) => {
                file.go_back(&mark)?;
                file.restore(open.slot, slot);
                Err(error)
            }
        }
    }

    /// Writes the records around the objects.
    fn write_frame(&mut self, spacing: Spacing) -> Result<()> {
        let path = self.output.file.path();
        let described = (self.infos.len(), self.described);
        let is_known = self.published_infos == Some(described);
        let lists: Vec<InfoList<'_>> = self.infos.iter().map(OwnedInfoList::borrowed).collect();
        let infos = |key_size| {
            joined_infos(&lists, self.described, key_size).map_err(|error| ReadError::from_format(&path, &error))
        };
        self.output.file.write_frame((!is_known).then_some(infos), spacing)?;
        self.published_infos = Some(described);
        Ok(())
    }

    /// Finishes all trees, publishes the file, syncs it to disk and returns its size. If entries could not be added to
    /// a tree, the tree keeps its last published state, and the error is returned after everything else has been
    /// published.
    pub fn finish(mut self) -> Result<u64> {
        let mut failed: Option<ReadError> = None;
        for open in std::mem::take(&mut self.open).into_iter().flatten() {
            if let Err(error) = self.finish_table(open) {
                match &mut failed {
                    Some(first) => first.message = format!("{}; {}", first.message, error.message),
                    None => failed = Some(error),
                }
            }
        }
        if let (Some(error), false) = (&failed, self.output.file.output().is_published()) {
            return Err(error.clone());
        }
        let spacing = if self.published_infos.is_some() { Spacing::Roomy } else { Spacing::Tight };
        self.write_frame(spacing)?;
        let output = self.output.file.output();
        output.sync()?;
        if !output.is_published() {
            output.publish()?;
        }
        failed.map_or(Ok(output.end()), Err)
    }

    fn finish_table(&mut self, mut open: OpenTable) -> Result<Filled> {
        if let Some(published) = open.published.filter(|_| open.is_published()) {
            return Ok(published.filled);
        }
        if open.is_broken {
            let kept = open.published.map_or(0, |published| published.filled.entries_count);
            let message = format!("tree {} has only {kept} entries: adding more entries failed", open.path);
            return Err(self.refused(&message).with_hint("remove it with `del file[name]`, or rewrite the file"));
        }
        let file = &mut self.output.file;
        open.columns.write_full(file)?;
        let (mark, slot) = (file.mark(), file.slot(open.slot));
        let finished = open.columns.finish(file);
        if finished.is_err() {
            file.go_back(&mark)?;
            file.restore(open.slot, slot);
        }
        finished
    }

    fn write<P: AsRef<[u8]>>(
        &mut self,
        directories: &[String],
        class_name: String,
        name: String,
        title: String,
        plain: impl FnOnce(u64) -> Result<P>,
    ) -> Result<i16> {
        let directory = self.directory(directories)?;
        let path = path_of(directories, &name);
        let cycle = self.next_cycle(&path)?;
        let listed = Listed { path, cycle, class_name: class_name.clone(), title: title.clone() };
        let object = ObjectName { class_name, name, title, date: self.date, cycle };
        let end = self.output.file.end();
        let place = self.output.file.reserve(directory);
        if let Err(error) = self.output.file.write_object(place, &object, plain) {
            self.output.file.take_back(place, end)?;
            return Err(error);
        }
        self.listed.push(listed, Some(place));
        self.has_news = true;
        Ok(cycle)
    }

    /// Returns the next cycle for an object at this path.
    fn next_cycle(&self, path: &str) -> Result<i16> {
        if self.output.file.directory(path).is_some() {
            return Err(self.refused(&format!("{path} is a directory, not an object")));
        }
        let too_many = || self.refused(&format!("{path} has more cycles than ROOT supports"));
        self.listed.next_cycle(path).ok_or_else(too_many)
    }

    fn directory(&mut self, names: &[String]) -> Result<usize> {
        let (mut directory, mut path) = (TOP, String::new());
        for name in names {
            path = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
            if let Some(known) = self.output.file.directory(&path) {
                directory = known;
                continue;
            }
            if self.listed.contains(&path) {
                return Err(self.refused(&format!("{path} is an object, not a directory")));
            }
            let class_name = DIRECTORY.to_string();
            let (title, date) = (name.clone(), self.date);
            let listed = Listed { path: path.clone(), cycle: 1, class_name: class_name.clone(), title: title.clone() };
            let object = ObjectName { class_name, name: name.clone(), title, date, cycle: 1 };
            directory = self.output.file.add_directory(directory, &path, object)?;
            self.listed.push(listed, None);
            self.has_news = true;
        }
        Ok(directory)
    }

    /// Adds the streamer infos of another file to the streamer infos that this file will get.
    fn describe(&mut self, source: &File) -> Result<()> {
        if let Some(list) = info_list(source)?
            && self.digests.insert(xxh3_128(list.borrowed().plain))
        {
            self.infos.push(list);
        }
        Ok(())
    }

    fn refused(&self, message: &str) -> ReadError {
        ReadError::new(ReadErrorKind::Output, &self.output.file.path(), message)
    }
}

fn path_of(directories: &[String], name: &str) -> String {
    [directories, &[name.to_string()]].concat().join("/")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::*;

    fn object(name: &str) -> NewObject {
        NewObject {
            class_name: "TH1D".to_string(),
            name: name.to_string(),
            title: String::new(),
            bytes: vec![0; 8].into(),
        }
    }

    #[test]
    fn an_object_and_a_directory_have_different_paths() {
        let folder = std::env::temp_dir().join(format!("branchline-objects-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut file = WritableFile::create(&folder.join("a.root"), false, Setting::NONE, 0).unwrap();
        file.add(&["a".to_string(), "b".to_string()], object("h")).unwrap();
        for (directories, name) in [(vec![], "a"), (vec!["a".to_string()], "b")] {
            let error = file.add(&directories, object(name)).unwrap_err();
            assert!(error.message.contains("is a directory"), "{error}");
        }
        assert!(file.add(&["a".to_string(), "b".to_string(), "h".to_string()], object("i")).is_err());
        assert_eq!(file.add(&["a".to_string(), "b".to_string()], object("h")).unwrap(), 2, "the next cycle");
        drop(file);
        fs::remove_dir_all(folder).unwrap();
    }
}
