//! One output in the making: what inputs have, each thing once, in one file.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use branchline_format::compress::Setting;
use branchline_format::error::ErrorKind;
use branchline_format::streamer::ClassInfos;
use branchline_format::write::{join_infos, Recording};
use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_128;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::write::baskets::copy::{Copied as Basket, Copying, Places};
use crate::write::baskets::forms::forms;
use crate::write::baskets::recompress::Recompressor;
use crate::write::baskets::rewrite::{Rewriter, Rewritten};
use crate::write::journal::resume::Keeping;
use crate::write::merge::input::{Content, Input, Item, ProcessId};
use crate::write::merge::{Branches, MergeOptions, Merged};
use crate::write::new_file::{NewFile, ObjectName, SlotId, TOP};
use crate::write::output::Output;
use crate::write::products::ntuple::{NtupleCopy, NtupleInput, NtupleTotals, PageCopying};
use crate::write::products::object::Objects;
use crate::write::products::tree::input::{refused, TreeInput};
use crate::write::products::tree::same_branches::{check_same, Place};
use crate::write::products::tree::totals::Totals;

/// How baskets are copied.
pub(crate) struct Copier<'a, 'b> {
    pub(crate) options: &'a MergeOptions,
    pub(crate) bundle_bytes: u64,
    /// Compresses them anew, if that is wanted.
    pub(crate) recompressor: Option<&'a mut Recompressor>,
    /// Where the baskets of each tree lie, if they are there already.
    pub(crate) there: Option<std::vec::IntoIter<Vec<Basket>>>,
    /// Is given where the baskets of each tree lie.
    pub(crate) laid: &'a mut Vec<Vec<Basket>>,
    /// Is told how many bytes were copied, and may end the merge.
    pub(crate) copied: &'a mut dyn FnMut(u64) -> Result<()>,
    /// What is known of new baskets that lie in outputs, of which this one has the number.
    pub(crate) keeping: &'a mut Keeping<'b>,
    pub(crate) number: u64,
    pub(crate) bytes_done: &'a AtomicU64,
}

impl Copier<'_, '_> {
    /// Copies the baskets of a tree, unless they are there already.
    fn copy(&mut self, tree: &Copying<'_>, output: &mut Output) -> Result<Places> {
        let before = output.end();
        let places = match (&mut self.there, &mut self.recompressor) {
            (Some(there), _) => {
                let places = tree.pass(&there.next().unwrap_or_default(), output)?;
                (self.copied)(output.end() - before)?;
                places
                    .ok_or_else(|| refused(tree.file.path(), "its baskets are not those that were kept".to_string()))?
            }
            (None, Some(recompressor)) => recompressor.add(tree, output, self.copied)?,
            (None, None) => tree.run(output, self.copied)?,
        };
        self.laid.push(places.iter().flatten().copied().collect());
        Ok(places)
    }
}

/// An output that is being made.
pub(crate) struct Volume {
    file: NewFile,
    codec: Option<Setting>,
    /// Where what comes from the second input on is to lie.
    records_at: Option<u64>,
    /// What there is, in the order in which it was met.
    things: Vec<Thing>,
    by_path: HashMap<String, usize>,
    infos: InfoLists,
    /// Of trees whose entries come to new baskets, by their paths.
    rewriters: HashMap<String, Rewriter>,
    /// Whether entries of an input are in it that could not be added whole.
    pub(crate) is_torn: bool,
    process_ids: Vec<ProcessId>,
    left_out: Vec<String>,
    notes: Vec<String>,
    files_count: u64,
    /// What is written behind all baskets takes about so many bytes.
    rest_bytes: u64,
}

struct Thing {
    path: String,
    about: ObjectName,
    making: Making,
}

/// How far a thing is.
enum Making {
    Directory,
    Tree(SlotId, Box<Totals>),
    Ntuple(SlotId, Box<NtupleTotals>),
    Objects(Objects),
}

/// What of an input lies in the file, until it is taken over.
enum Copied {
    /// Where the baskets of each branch lie.
    Baskets(Places),
    Pages(Box<NtupleCopy>),
    Nothing,
}

impl Making {
    fn is_like(&self, content: &Content) -> bool {
        matches!(
            (self, content),
            (Self::Directory, Content::Directory)
                | (Self::Tree(..), Content::Tree(_))
                | (Self::Ntuple(..), Content::Ntuple(_))
                | (Self::Objects(_), Content::Sum { .. } | Content::Copy(..))
        )
    }
}

impl Volume {
    /// Begins an output of which this is the first input.
    pub(crate) fn begin(output: Output, first: &Input, options: &MergeOptions) -> Result<Self> {
        let codec = options.codec;
        let mut frame = first.frame(output.path());
        frame.compress = codec.map_or(frame.compress, Setting::as_root);
        Ok(Self {
            codec,
            records_at: options.records_at,
            file: NewFile::begin(output, frame)?,
            things: Vec::new(),
            by_path: HashMap::new(),
            infos: InfoLists::default(),
            rewriters: HashMap::new(),
            is_torn: false,
            process_ids: Vec::new(),
            left_out: Vec::new(),
            notes: Vec::new(),
            files_count: 0,
            rest_bytes: 0,
        })
    }

    /// About the bytes that it will have.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.file.end() + self.rest_bytes
    }

    /// Where it is written.
    pub(crate) fn output(&mut self) -> &mut Output {
        self.file.output()
    }

    /// How many inputs are in it.
    pub(crate) fn files_count(&self) -> u64 {
        self.files_count
    }

    fn thing(&self, path: &str) -> Option<&Thing> {
        self.by_path.get(path).map(|index| &self.things[*index])
    }

    /// Adds all of an input, or nothing of it.
    pub(crate) fn add(&mut self, mut input: Input, copier: &mut Copier<'_, '_>) -> Result<()> {
        self.check(&input)?;
        self.take_new_apart(&mut input, &copier.options.branches)?;
        let new_infos = self.infos.new_of(&input)?;
        let mark = self.file.mark();
        let process_ids_count = self.process_ids.len();
        let written = self.write(&input, copier).and_then(|copies| {
            // Entries that came to new baskets stay in them.
            self.is_torn |= copier.options.rewriting.is_some();
            input.check_unchanged()?;
            self.is_torn = false;
            Ok(copies)
        });
        let copies = match written {
            Ok(copies) => copies,
            // What is there already stays there.
            Err(error) if copier.there.is_some() => return Err(error),
            Err(error) => {
                self.process_ids.truncate(process_ids_count);
                self.file.go_back(&mark)?;
                return Err(error);
            }
        };
        self.infos.add(&input, new_infos);
        self.left_out.extend(input.left_out.iter().map(|what| format!("{what} of {}", input.file.path())));
        self.notes.extend(input.notes.iter().map(|what| format!("{}: {what}", input.file.path())));
        self.files_count += 1;
        self.rest_bytes += input.size_bytes() / 16;
        let infos = Arc::clone(input.file.class_infos());
        for (item, copy) in input.items.into_iter().zip(copies) {
            self.commit(item, copy, input.file.path(), &infos)?;
        }
        if let Some(seek) = self.records_at.take().filter(|seek| *seek > self.file.end()) {
            self.file.output().cut(seek)?;
        }
        Ok(())
    }

    /// Refuses an input that does not go with those before.
    fn check(&self, input: &Input) -> Result<()> {
        let file = input.file.path();
        for item in &input.items {
            let Some(thing) = self.thing(&item.path) else { continue };
            let is_same_class =
                thing.about.class_name == item.key.class_name || matches!(thing.making, Making::Objects(_));
            if !is_same_class || !thing.making.is_like(&item.content) {
                let message =
                    format!("{} is a {}, in files before a {}", item.path, item.key.class_name, thing.about.class_name);
                return Err(ReadError::new(ReadErrorKind::Unsupported, file, message));
            }
            match (&thing.making, &item.content) {
                (Making::Tree(_, totals), Content::Tree(tree)) => {
                    check_same(&Place { file: &totals.first_path, tree: &totals.first }, &Place { file, tree })?;
                }
                (Making::Ntuple(_, totals), Content::Ntuple(ntuple)) => {
                    ntuple.joined(Some(totals))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes those trees of an input apart that are the first of their paths: their records are written in the end.
    fn take_new_apart(&self, input: &mut Input, branches: &Branches) -> Result<()> {
        for item in &mut input.items {
            if let (None, Content::Tree(tree)) = (self.thing(&item.path), &mut item.content) {
                tree.take_apart(&input.file, &item.path, &item.key, branches.get(&item.path))?;
            }
        }
        Ok(())
    }

    /// Writes what of an input lies in the file as it is. Answers with where it lies.
    fn write(&mut self, input: &Input, copier: &mut Copier<'_, '_>) -> Result<Vec<Copied>> {
        let process_ids_before = self.write_process_ids(&input.process_ids)?;
        let mut all = Vec::with_capacity(input.items.len());
        let mut written = HashMap::new();
        for item in &input.items {
            let directory = self.file.directory(item.parent()).unwrap_or(TOP);
            let mut copy = Copied::Nothing;
            match &item.content {
                Content::Directory if self.file.directory(&item.path).is_none() => {
                    self.settle()?;
                    self.file.add_directory(directory, &item.path, item.about())?;
                }
                Content::Copy(stored, _) => self.write_copy((item, directory, stored), input, &mut written)?,
                Content::Tree(tree) if copier.options.rewriting.is_some() => {
                    self.rewrite(item, tree, (input, process_ids_before), copier)?;
                    // The rewriter keeps where its baskets lie.
                    copy = Copied::Baskets(Places::new());
                }
                Content::Tree(tree) => {
                    let copying = Copying {
                        file: &input.file,
                        tree: &tree.tree,
                        order: copier.options.order,
                        seek_directory: self.file.seek_of(directory),
                        process_ids_before,
                        bundle_bytes: copier.bundle_bytes,
                        digests: copier.options.proves,
                    };
                    copy = Copied::Baskets(copier.copy(&copying, self.file.output())?);
                }
                Content::Ntuple(ntuple) => {
                    self.settle()?;
                    copy = Copied::Pages(Box::new(self.copy_pages(&item.path, input.file.path(), ntuple, copier)?));
                }
                Content::Directory | Content::Sum { .. } => {}
            }
            all.push(copy);
        }
        Ok(all)
    }

    /// Has the entries of a tree written to new baskets, those of the last cluster later.
    fn rewrite(
        &mut self,
        item: &Item,
        tree: &TreeInput,
        (input, process_ids_before): (&Input, u16),
        copier: &mut Copier<'_, '_>,
    ) -> Result<()> {
        let file = &*input.file;
        let MergeOptions { rewriting, codec, .. } = copier.options;
        let selection = copier.options.selection_of(file.path(), &item.path, tree.tree.entries_count)?;
        let (auto_flush, tree_of) = (tree.facts.auto_flush, &tree.tree);
        let rewritten = Rewritten { file, tree: tree_of, auto_flush, process_ids_before, selection };
        let rewriter = match self.rewriters.remove(&item.path) {
            Some(rewriter) => rewriter,
            None => {
                let recording =
                    Recording::of_tree(&tree.plain, tree.key_size, &item.key.class_name, file.class_infos())
                        .map_err(|error| ReadError::from_format(file.path(), &error.in_object(&item.path)))?;
                let forms = forms(tree_of, &recording, (*codec, file.header().compress), file.classes());
                let directory = self.file.directory(item.parent()).unwrap_or(TOP);
                let place = (self.file.seek_of(directory), item.key.date);
                let rewriting = (rewriting.unwrap_or_default(), copier.options.order, copier.options.memory_bytes);
                let known = copier.keeping.laid_of(copier.number, &item.path);
                Rewriter::new(rewriting, &rewritten, forms, place, known)
            }
        };
        self.settle()?;
        let rewriter = self.rewriters.entry(item.path.clone()).or_insert(rewriter);
        self.is_torn = true;
        let (place, keeping) = ((copier.number, item.path.as_str()), &mut copier.keeping);
        let mut noted = |flushed, output: &Output| {
            keeping.add_laid(place, flushed, copier.bytes_done.load(Ordering::Relaxed), output)
        };
        rewriter.add(&rewritten, self.file.output(), copier.copied, &mut noted)?;
        self.is_torn = false;
        Ok(())
    }

    /// Writes the new baskets of all trees that were handed over, before something else is written: where things lie does
    /// not depend on when they were made.
    pub(crate) fn settle(&mut self) -> Result<()> {
        let was_torn = std::mem::replace(&mut self.is_torn, true);
        self.rewriters.values_mut().try_for_each(|rewriter| rewriter.settle(self.file.output(), &mut |_| Ok(())))?;
        self.is_torn = was_torn;
        Ok(())
    }

    fn copy_pages(
        &mut self,
        path: &str,
        file: &str,
        ntuple: &NtupleInput,
        copier: &mut Copier<'_, '_>,
    ) -> Result<NtupleCopy> {
        let totals = match self.by_path.get(path).map(|index| &self.things[*index].making) {
            Some(Making::Ntuple(_, totals)) => Some(&**totals),
            _ => None,
        };
        let MergeOptions { order, rewriting, .. } = *copier.options;
        let selection = copier.options.selection_of(file, path, ntuple.entries_count())?;
        let there = copier.there.as_mut().map(|there| there.next().unwrap_or_default());
        let layout = rewriting.map(|rewriting| ntuple.layout(rewriting, self.codec));
        let how =
            PageCopying { order, setting: self.codec, bundle_bytes: copier.bundle_bytes, layout, selection, there };
        let before = self.file.end();
        let copy = ntuple.copy(totals, how, self.file.output(), copier.copied)?;
        copier.laid.push(copy.places(self.file.end() - before));
        Ok(copy)
    }

    /// Process ids of an input come behind those of others, unless they are there in this order already. Answers with
    /// how many stand before (TTreeCloner::CopyProcessIds).
    fn write_process_ids(&mut self, ids: &[ProcessId]) -> Result<u16> {
        let count = self.process_ids.len();
        let is_there = |first: &usize| self.process_ids.get(*first..first + ids.len()).is_some_and(|some| some == ids);
        let first = (0..count).find(is_there).unwrap_or(count);
        let first = if ids.is_empty() { 0 } else { first };
        if first == count && !ids.is_empty() {
            self.settle()?;
            for id in ids {
                let name = format!("ProcessID{}", self.process_ids.len());
                let about = ObjectName { name, ..id.about.clone() };
                let place = self.file.reserve(TOP);
                self.file.write_stored(place, &about, (id.object_size, &id.stored))?;
                self.process_ids.push(id.clone());
            }
        }
        u16::try_from(first).map_err(|_| {
            let path = self.file.output().path().display().to_string();
            ReadError::new(ReadErrorKind::Unsupported, &path, "more process ids than ROOT has room for")
        })
    }

    /// Writes an object that is copied, unless one with the same bytes is there, or was written of the same input.
    fn write_copy<'i>(
        &mut self,
        (item, directory, stored): (&'i Item, usize, &Bytes),
        input: &Input,
        written: &mut HashMap<&'i str, HashSet<u128>>,
    ) -> Result<()> {
        let digest = digest_of_key(&item.key.title, &item.key.class_name, stored);
        let of_this = written.entry(item.path.as_str()).or_default();
        let cycle = match self.thing(&item.path).map(|thing| &thing.making) {
            Some(Making::Objects(objects)) if objects.has_copy(digest) => return Ok(()),
            Some(Making::Objects(objects)) => objects.next_cycle(of_this.len(), item, input.file.path())?,
            _ => Objects::default().next_cycle(of_this.len(), item, input.file.path())?,
        };
        if !of_this.insert(digest) {
            return Ok(());
        }
        self.settle()?;
        let about = ObjectName { cycle, ..item.about() };
        let place = self.file.reserve(directory);
        if self.file.key_size(directory, &about) == item.key.key_size {
            return self.file.write_stored(place, &about, (item.key.object_size, stored));
        }
        // Objects in it may refer to each other, which counts the bytes of the key.
        self.file.write_object(place, &about, |key_size| relocated(item, input, key_size))
    }

    /// Takes over what was written, and adds up what adds up.
    fn commit(&mut self, item: Item, copy: Copied, file: &str, infos: &Arc<ClassInfos>) -> Result<()> {
        let about = item.about();
        let known = self.by_path.get(&item.path).copied();
        let directory = self.file.directory(item.parent()).unwrap_or(TOP);
        if let (Content::Sum { .. } | Content::Copy(..), _) = (&item.content, known) {
            return self.commit_object(item, known, (file, directory), infos);
        }
        if let Some(index) = known {
            match (&mut self.things[index].making, item.content, copy) {
                (Making::Tree(_, totals), Content::Tree(mut tree), Copied::Baskets(places)) => {
                    totals.add(&mut tree, &places);
                }
                (Making::Ntuple(_, totals), Content::Ntuple(_), Copied::Pages(copy)) => totals.add(*copy),
                _ => {}
            }
            return Ok(());
        }
        let making = match (item.content, copy) {
            (Content::Tree(tree), Copied::Baskets(places)) => {
                let mut totals = Totals::new(*tree, (file, &item.key.class_name), infos, self.codec);
                totals.add_first(&places);
                Making::Tree(self.file.reserve(directory), Box::new(totals))
            }
            (Content::Ntuple(ntuple), Copied::Pages(copy)) => {
                let totals = NtupleTotals::new(&ntuple, &item.key.name, self.codec, *copy);
                Making::Ntuple(self.file.reserve(directory), Box::new(totals))
            }
            (Content::Directory, _) => Making::Directory,
            _ => return Err(refused(file, format!("nothing of {} was written", item.path))),
        };
        self.by_path.insert(item.path.clone(), self.things.len());
        self.things.push(Thing { path: item.path, about, making });
        Ok(())
    }

    /// Adds an object to those of its path.
    fn commit_object(
        &mut self,
        mut item: Item,
        known: Option<usize>,
        (file, directory): (&str, usize),
        infos: &Arc<ClassInfos>,
    ) -> Result<()> {
        let index = known.unwrap_or(self.things.len());
        if known.is_none() {
            self.by_path.insert(item.path.clone(), index);
            let (path, about, making) = (item.path.clone(), item.about(), Making::Objects(Objects::default()));
            self.things.push(Thing { path, about, making });
        }
        let Making::Objects(objects) = &mut self.things[index].making else { return Ok(()) };
        match std::mem::replace(&mut item.content, Content::Directory) {
            Content::Copy(stored, reason) => {
                objects.add_copy(digest_of_key(&item.key.title, &item.key.class_name, &stored), reason);
            }
            Content::Sum { plain, addend } => {
                let Some(addend) = objects.add(addend) else { return Ok(()) };
                // Some are given room in the file.
                let was_torn = std::mem::replace(&mut self.is_torn, true);
                let mut settled = self.rewriters.values_mut();
                settled.try_for_each(|rewriter| rewriter.settle(self.file.output(), &mut |_| Ok(())))?;
                self.is_torn = was_torn;
                objects.begin((&item, file), (plain, addend), infos, (&mut self.file, directory))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Writes what comes behind the baskets. The output is on the disk then, but does not have its name.
    pub(crate) fn finish(mut self) -> Result<Finished> {
        let mut merged = Merged { left_out: self.left_out, notes: self.notes, ..Merged::default() };
        for thing in &mut self.things {
            match &mut thing.making {
                Making::Tree(slot, totals) => {
                    if let Some(rewriter) = self.rewriters.remove(&thing.path) {
                        totals.take(rewriter.finish(self.file.output(), &mut |_| Ok(()))?);
                    }
                    self.file.write_object(*slot, &thing.about, |key_size| totals.record(key_size))?;
                    merged.add_tree(totals);
                }
                Making::Ntuple(slot, totals) => {
                    let anchor = totals.write_metadata(self.file.output())?;
                    self.file.write_object(*slot, &thing.about, |_| Ok(anchor))?;
                    merged.add_ntuple(totals);
                }
                Making::Objects(objects) => {
                    merged.notes.extend(objects.write((&thing.path, &thing.about.class_name), &mut self.file)?);
                    merged.objects_count += objects.versions_count() as u64;
                }
                Making::Directory => {}
            }
        }
        let infos = self.infos;
        merged.size_bytes = self.file.finish(|key_size| infos.joined(key_size))?;
        Ok(Finished { file: self.file, things: self.things, merged })
    }
}

/// An output that is whole, but has not its name yet.
pub(crate) struct Finished {
    pub(crate) file: NewFile,
    things: Vec<Thing>,
    pub(crate) merged: Merged,
}

impl Finished {
    /// Its RNTuples, by their paths.
    pub(crate) fn ntuples(&self) -> impl Iterator<Item = (&str, &NtupleTotals)> {
        self.things.iter().filter_map(|thing| match &thing.making {
            Making::Ntuple(_, totals) => Some((thing.path.as_str(), &**totals)),
            _ => None,
        })
    }

    /// Its trees, by their paths.
    pub(crate) fn trees(&self) -> impl Iterator<Item = (&str, &Totals)> {
        self.things.iter().filter_map(|thing| match &thing.making {
            Making::Tree(_, totals) => Some((thing.path.as_str(), &**totals)),
            _ => None,
        })
    }
}

/// Tells objects that are copied from others of their name.
pub(crate) fn digest_of_key(title: &str, class_name: &str, stored: &[u8]) -> u128 {
    xxh3_128(&[title.as_bytes(), &[0], class_name.as_bytes(), &[0], stored].concat())
}

/// The plain bytes of an object for a key of another size.
fn relocated(item: &Item, input: &Input, key_size: u64) -> Result<Vec<u8>> {
    let key = &item.key;
    let moved = item.plain().and_then(|plain| {
        let recording = Recording::of_object(&plain, key.key_size, &key.class_name, input.file.class_infos())?;
        recording.emit(key_size, &branchline_format::write::Changes::new())
    });
    moved.map_err(|error| {
        let error = error.in_object(format!("{} {}", key.class_name, item.path));
        refused(input.file.path(), format!("{error}; it cannot lie behind the first 2 GB of a file"))
    })
}

/// The lists of streamer infos of the inputs, those that are alike once.
#[derive(Default)]
struct InfoLists {
    lists: Vec<(Vec<u8>, u64)>,
    digests: HashSet<u128>,
    /// Held, so that no other can lie where one was.
    known: Vec<Arc<ClassInfos>>,
}

/// Lists are known by where they lie up to this number of them, and by their bytes beyond.
const KNOWN_MAX: usize = 64;

impl InfoLists {
    /// The list of an input, if it is not known; one that is damaged is refused.
    fn new_of(&self, input: &Input) -> Result<Option<(Vec<u8>, u64)>> {
        let infos = input.file.class_infos();
        if self.known.iter().any(|known| Arc::ptr_eq(known, infos)) {
            return Ok(None);
        }
        let Some((plain, key_size)) = input.info_list()? else { return Ok(None) };
        if self.digests.contains(&xxh3_128(&plain)) {
            return Ok(None);
        }
        match join_infos(&[(&plain, key_size)], key_size) {
            Err(error) if error.kind == ErrorKind::Damaged => {
                Err(ReadError::from_format(input.file.path(), &error.in_object("streamer infos")))
            }
            _ => Ok(Some((plain, key_size))),
        }
    }

    /// Takes over the list of an input, where it has a new one.
    fn add(&mut self, input: &Input, new: Option<(Vec<u8>, u64)>) {
        if let Some((plain, key_size)) = new {
            self.digests.insert(xxh3_128(&plain));
            self.lists.push((plain, key_size));
        }
        let infos = input.file.class_infos();
        if self.known.len() < KNOWN_MAX && !self.known.iter().any(|known| Arc::ptr_eq(known, infos)) {
            self.known.push(Arc::clone(infos));
        }
    }

    fn joined(&self, key_size: u64) -> Result<Vec<u8>> {
        let lists: Vec<(&[u8], u64)> = self.lists.iter().map(|(bytes, size)| (bytes.as_slice(), *size)).collect();
        join_infos(&lists, key_size).map_err(|error| ReadError::from_format("streamer infos", &error))
    }
}
