//! Fast merge: what several files hold becomes one, and the baskets of trees are copied as they are.

pub(crate) mod input;
mod open_ahead;
mod verify;
pub(crate) mod volume;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

use branchline_format::compress::Setting;
use branchline_storage::Access;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::limits;
use crate::write::baskets::copy::Copied;
use crate::write::baskets::recompress::Recompressor;
use crate::write::baskets::rewrite::Rewriting;
use crate::write::journal::resume::Keeping;
use crate::write::journal::Done;
use crate::write::merge::input::Input;
use crate::write::merge::open_ahead::Ahead;
use crate::write::merge::volume::{Copier, Finished, Volume};
use crate::write::output::Output;
use crate::write::products::ntuple::NtupleTotals;
use crate::write::products::tree::totals::Totals;
use crate::write::selection::Selection;

/// In which order the baskets of an input are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// As they lie in the input.
    Offset,
    /// Those of a branch together.
    Branch,
    /// By their first entry, so that those that are read together lie together.
    Entry,
}

/// By the path of a tree which of its branches are kept, with those that they need; all of trees that are not named.
pub type Branches = HashMap<String, HashSet<String>>;

/// What is to be merged.
#[derive(Debug, Clone)]
pub struct MergeOptions {
    /// Files by path or URL.
    pub inputs: Vec<String>,
    /// How they are read.
    pub access: Access,
    /// The file to make.
    pub output: PathBuf,
    /// Path of the only tree that is wanted; everything if it is not given.
    pub tree: Option<String>,
    /// Which branches of trees are wanted.
    pub branches: Branches,
    /// The order of the baskets.
    pub order: Order,
    /// Whether a file that is there already is replaced.
    pub replace: bool,
    /// How the baskets are compressed; as they are, if it is not given.
    pub codec: Option<Setting>,
    /// How entries come to new baskets, if they do.
    pub rewriting: Option<Rewriting>,
    /// Which entries of each input are kept, by its path, when they come to new baskets; all if it is empty.
    pub selections: HashMap<String, Arc<Selection>>,
    /// The tree whose entries these are; all others are kept whole. Of any tree, if it is not given.
    pub selected: Option<String>,
    /// Several outputs are made, none larger than this unless a single input is.
    pub size_bytes_max: Option<u64>,
    /// Whether inputs that cannot be merged are left out.
    pub skips_bad_files: bool,
    /// Whether what was written is read again and compared, before it has its name.
    pub proves: bool,
    /// Whether outputs have their names as soon as they are written, not when they are on the disk.
    pub skips_sync: bool,
    /// Whether it goes on with what a merge that was killed left.
    pub resumes: bool,
    /// After so many bytes it is noted how far the merge is, if not after [`limits::JOURNAL_BYTES`]. So tests have it
    /// after few.
    pub journal_bytes: Option<u64>,
    /// Where what comes from the second input on lies; in front of it is a hole. So tests have large files.
    pub records_at: Option<u64>,
    /// What inputs and baskets may take in memory, beside the tables of the output.
    pub memory_bytes: u64,
}

impl MergeOptions {
    /// Bytes of baskets or pages that are read at a time.
    pub(crate) fn bundle_bytes(&self) -> u64 {
        limits::COPIED_AT_ONCE_BYTES.min(self.memory_bytes / limits::BUNDLE_MEMORY_SHARE)
    }

    /// Which entries of a tree of an input are kept; all if none.
    pub(crate) fn selection_of(&self, path: &str, tree: &str, entries_count: u64) -> Result<Option<Arc<Selection>>> {
        if self.selections.is_empty() || self.selected.as_ref().is_some_and(|selected| selected != tree) {
            return Ok(None);
        }
        let found = self.selections.get(path).filter(|found| found.entries_count() == entries_count);
        if self.selections.get(path).is_some_and(|found| found.entries_count() == 0) && entries_count > 0 {
            let message = "its tree says that it has no entries, and its branches have some";
            return Err(ReadError::new(ReadErrorKind::Unsupported, path, message));
        }
        let told = || {
            let message = format!("it is not said of its {entries_count} entries which of them are to be kept");
            ReadError::new(ReadErrorKind::Refused, path, message)
        };
        found.map(|found| Some(Arc::clone(found))).ok_or_else(told)
    }
}

/// What was made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Merged {
    /// The outputs.
    pub outputs: Vec<PathBuf>,
    /// Inputs that are in them.
    pub files_count: u64,
    /// Trees of all outputs.
    pub trees_count: u64,
    /// Their entries.
    pub entries_count: u64,
    /// Baskets or pages that were copied.
    pub baskets_count: u64,
    /// Their bytes.
    pub basket_bytes: u64,
    /// Other objects of all outputs.
    pub objects_count: u64,
    /// Bytes of all outputs.
    pub size_bytes: u64,
    /// What of the inputs is not in them.
    pub left_out: Vec<String>,
    /// What else is to be known.
    pub notes: Vec<String>,
    /// Inputs that were left out, and why.
    pub skipped: Vec<(String, ReadError)>,
}

impl Merged {
    fn add_tree(&mut self, totals: &Totals) {
        let (baskets_count, basket_bytes) = totals.baskets();
        self.trees_count += 1;
        self.entries_count += totals.entries_count();
        self.baskets_count += baskets_count;
        self.basket_bytes += basket_bytes;
        self.left_out.extend(totals.left_out());
    }

    fn add_ntuple(&mut self, totals: &NtupleTotals) {
        let (pages_count, page_bytes) = totals.pages();
        self.trees_count += 1;
        self.entries_count += totals.entries_count();
        self.baskets_count += pages_count;
        self.basket_bytes += page_bytes;
    }

    fn add(&mut self, other: &Self) {
        self.trees_count += other.trees_count;
        self.entries_count += other.entries_count;
        self.baskets_count += other.baskets_count;
        self.basket_bytes += other.basket_bytes;
        self.objects_count += other.objects_count;
        self.size_bytes += other.size_bytes;
        self.left_out.extend_from_slice(&other.left_out);
        self.notes.extend_from_slice(&other.notes);
    }
}

/// A merge that others can watch and stop.
#[derive(Debug)]
pub struct Merge {
    options: MergeOptions,
    files_done: AtomicU64,
    bytes_done: AtomicU64,
    is_stopped: AtomicBool,
}

impl Merge {
    /// Nothing is done yet.
    pub fn new(options: MergeOptions) -> Self {
        let (files_done, bytes_done) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { options, files_done, bytes_done, is_stopped: AtomicBool::new(false) }
    }

    /// Files that were merged and bytes that were copied so far.
    pub fn progress(&self) -> (u64, u64) {
        (self.files_done.load(Ordering::Relaxed), self.bytes_done.load(Ordering::Relaxed))
    }

    /// Ends the merge soon, with nothing left of it.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    fn check_stopped(&self) -> Result<()> {
        if self.is_stopped.load(Ordering::Relaxed) {
            return Err(self.told("the merge was stopped"));
        }
        Ok(())
    }

    fn told(&self, message: &str) -> ReadError {
        ReadError::new(ReadErrorKind::Refused, &self.options.output.display().to_string(), message)
    }

    /// Merges. The outputs have their names only when all of them are whole.
    pub fn run(&self) -> Result<Merged> {
        let mut merged = Merged::default();
        let recompressor = self.options.codec.map(Recompressor::new);
        let mut keeping = Keeping::begin(&self.options)?;
        merged.notes.extend(keeping.note.take());
        let place = (keeping.number, keeping.outputs_count);
        let mut volumes = Volumes { options: &self.options, place, recompressor, current: None, finished: Vec::new() };
        let ahead = Ahead::new(&self.options);
        ahead.run(|path, input| {
            self.check_stopped()?;
            let identity = keeping.identity_of(&input);
            match keeping.next(path, identity)? {
                Some((done, is_last)) => {
                    self.pass(path, input, &done, (&mut volumes, &mut merged, &mut keeping))?;
                    keeping.check(&done, volumes.position())?;
                    if is_last && self.options.rewriting.is_none() {
                        volumes.cut()?;
                    }
                }
                None => {
                    let mut done = self.take(path, input, (&mut volumes, &mut merged, &mut keeping))?;
                    (done.identity, (done.volume, done.end)) = (identity, volumes.position());
                    let output = volumes.current.as_mut().map(|volume| &*volume.output());
                    keeping.add(&done, self.bytes_done.load(Ordering::Relaxed), output)?;
                }
            }
            self.files_done.fetch_add(1, Ordering::Relaxed);
            Ok(())
        })?;
        volumes.close()?;
        if volumes.finished.is_empty() {
            return Err(match merged.skipped.into_iter().next() {
                Some((_, first)) => first.with_hint("none of the inputs could be merged; this is the first of them"),
                None => self.told("there is nothing to merge"),
            });
        }
        self.check_stopped()?;
        if self.options.proves {
            volumes.finished.iter_mut().try_for_each(|volume| verify::check(volume, || self.check_stopped()))?;
        }
        for volume in &mut volumes.finished {
            merged.outputs.push(volume.file.output().path().to_owned());
            merged.add(&volume.merged);
        }
        let outputs_count = volumes.finished.len();
        if let Some(last) = volumes.finished.last_mut() {
            keeping.settle(outputs_count, last.file.output().written()?)?;
        }
        publish(volumes.finished)?;
        keeping.end();
        Ok(merged)
    }

    /// Adds an input. Answers with what became of it.
    fn take(
        &self,
        path: &str,
        input: Result<Input>,
        (volumes, merged, keeping): (&mut Volumes<'_>, &mut Merged, &mut Keeping<'_>),
    ) -> Result<Done> {
        let mut done = Done { identity: 0, volume: 0, end: 0, skipped: None, trees: Vec::new() };
        match input.and_then(|input| self.add(input, (volumes, keeping), None, &mut done.trees)) {
            Ok(()) => merged.files_count += 1,
            Err(error) if self.is_skipped(&error) && !volumes.is_torn() => {
                done.trees.clear();
                done.skipped = Some(error.message.clone());
                merged.skipped.push((path.to_string(), error));
            }
            Err(error) => return Err(error),
        }
        Ok(done)
    }

    /// Adds an input whose baskets are there already, or leaves it out again.
    fn pass(
        &self,
        path: &str,
        input: Result<Input>,
        done: &Done,
        (volumes, merged, keeping): (&mut Volumes<'_>, &mut Merged, &mut Keeping<'_>),
    ) -> Result<()> {
        let Some(reason) = &done.skipped else {
            merged.files_count += 1;
            return self.add(input?, (volumes, keeping), Some(done.trees.clone()), &mut Vec::new());
        };
        if done.identity != 0 {
            // It was left out only when there was an output for it.
            volumes.make_room(&input?)?;
        }
        merged.skipped.push((path.to_string(), ReadError::new(ReadErrorKind::BadFile, path, reason.as_str())));
        Ok(())
    }

    /// Whether the merge goes on without an input of which this is told.
    fn is_skipped(&self, error: &ReadError) -> bool {
        self.options.skips_bad_files
            && !matches!(error.kind, ReadErrorKind::Output | ReadErrorKind::Internal | ReadErrorKind::Refused)
    }

    /// Adds an input, of which it may be known where the baskets of its trees lie.
    fn add(
        &self,
        input: Input,
        (volumes, keeping): (&mut Volumes<'_>, &mut Keeping<'_>),
        there: Option<Vec<Vec<Copied>>>,
        laid: &mut Vec<Vec<Copied>>,
    ) -> Result<()> {
        volumes.make_room(&input)?;
        let mut copied = |bytes| {
            self.bytes_done.fetch_add(bytes, Ordering::Relaxed);
            self.check_stopped()
        };
        let bundle_bytes = self.options.bundle_bytes();
        let there = there.map(Vec::into_iter);
        let recompressor = volumes.recompressor.as_mut();
        let options = &self.options;
        let (number, bytes_done, copied) = (volumes.finished.len() as u64, &self.bytes_done, &mut copied);
        let mut copier =
            Copier { options, bundle_bytes, recompressor, there, laid, copied, keeping, number, bytes_done };
        match &mut volumes.current {
            Some(volume) => volume.add(input, &mut copier),
            None => Ok(()),
        }
    }
}

/// Gives all outputs their names: the first at the end, so that what has the name that was asked for is never without
/// the others; and none of them, if one cannot have it. Their other names go when all have theirs, that of the first
/// before those of the others: until then a merge that goes on takes the names back.
fn publish(finished: Vec<Finished>) -> Result<()> {
    let mut outputs: Vec<Output> = finished.into_iter().map(|volume| volume.file.into_output()).collect();
    for number in (0..outputs.len()).rev() {
        if let Err(error) = outputs[number].take_name() {
            outputs.drain(..).skip(number + 1).for_each(Output::withdraw);
            return Err(error);
        }
    }
    outputs.iter_mut().try_for_each(Output::settle_name)
}

/// The outputs.
struct Volumes<'a> {
    options: &'a MergeOptions,
    /// The number in the names of those that are not whole, and how many there are already.
    place: (u32, usize),
    recompressor: Option<Recompressor>,
    current: Option<Volume>,
    finished: Vec<Finished>,
}

impl Volumes<'_> {
    /// Sees to it that there is an output that an input can be added to.
    fn make_room(&mut self, input: &Input) -> Result<()> {
        let is_full = |volume: &Volume| {
            let size = volume.size_bytes().saturating_add(input.size_bytes());
            volume.files_count() > 0 && self.options.size_bytes_max.is_some_and(|most| size > most)
        };
        if let Some(volume) = self.current.as_mut().filter(|_| self.options.size_bytes_max.is_some()) {
            volume.settle()?;
        }
        if self.current.as_ref().is_some_and(is_full) {
            self.close()?;
        }
        if self.current.is_none() {
            let path = numbered(&self.options.output, self.finished.len());
            let (number, outputs_count) = self.place;
            let is_there = self.finished.len() < outputs_count;
            let begin = if is_there { Output::go_over } else { Output::create_as };
            let mut output = begin(number, &path, self.options.replace, &self.options.inputs)?;
            if self.options.skips_sync {
                output.wait_for_nothing();
            }
            self.current = Some(Volume::begin(output, input, self.options)?);
        }
        Ok(())
    }

    /// The number of the output that is being made, and where it ends.
    fn position(&mut self) -> (u64, u64) {
        (self.finished.len() as u64, self.current.as_mut().map_or(0, |volume| volume.output().end()))
    }

    /// Takes back what lies behind the end of the output that is being made.
    fn cut(&mut self) -> Result<()> {
        self.current.as_mut().map_or(Ok(()), |volume| {
            let end = volume.output().end();
            volume.output().cut(end)
        })
    }

    fn is_torn(&self) -> bool {
        self.current.as_ref().is_some_and(|volume| volume.is_torn)
    }

    /// Finishes the output that is being made.
    fn close(&mut self) -> Result<()> {
        if let Some(volume) = self.current.take().filter(|volume| volume.files_count() > 0) {
            self.finished.push(volume.finish()?);
        }
        Ok(())
    }
}

/// The name of the output with this number, as ROOT counts them (TTree::ChangeFile): `name.root`, `name_1.root`.
pub(crate) fn numbered(path: &Path, number: usize) -> PathBuf {
    if number == 0 {
        return path.to_owned();
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let ending = path.extension().map(|ending| format!(".{}", ending.to_string_lossy())).unwrap_or_default();
    path.with_file_name(format!("{stem}_{number}{ending}"))
}
