//! Fast merge: the trees of several files become one, and their baskets are copied as they are.

pub(crate) mod copy;
pub(crate) mod input;
pub(crate) mod output;
mod record;
mod schema;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use branchline_format::compress::Setting;
use branchline_format::file::TKey;
use branchline_format::write::file::BEGIN;
use branchline_format::write::{join_infos, FileFrame, NewKey, RecordPlace};

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::rewrite::Recompressor;

use input::Input;
use output::Output;
use record::Totals;

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

/// What is to be merged.
#[derive(Debug, Clone)]
pub struct MergeOptions {
    /// Files by path or URL.
    pub inputs: Vec<String>,
    /// The file to make.
    pub output: PathBuf,
    /// Path of the tree; the only one if it is not given.
    pub tree: Option<String>,
    /// The order of the baskets.
    pub order: Order,
    /// Whether a file that is there already is replaced.
    pub replace: bool,
    /// How the baskets are compressed; as they are, if it is not given.
    pub codec: Option<Setting>,
}

/// What was made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Merged {
    /// Entries of the tree.
    pub entries_count: u64,
    /// Baskets that were copied.
    pub baskets_count: u64,
    /// Their bytes.
    pub basket_bytes: u64,
    /// Bytes of the file.
    pub size_bytes: u64,
    /// What of the inputs is not in it.
    pub left_out: Vec<String>,
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
            let output = self.options.output.display().to_string();
            return Err(ReadError::new(ReadErrorKind::Internal, &output, "the merge was stopped"));
        }
        Ok(())
    }

    /// Merges. The output has its name only when it is whole.
    pub fn run(&self) -> Result<Merged> {
        let path = |index: usize| self.options.inputs.get(index).map(String::as_str);
        let Some(first_path) = path(0) else {
            let output = self.options.output.display().to_string();
            return Err(ReadError::new(ReadErrorKind::NoSuchKey, &output, "there is nothing to merge"));
        };
        let mut output = Output::create(&self.options)?;
        let first = Input::open(first_path, self.options.tree.as_deref())?;
        let mut frame = first.frame(&self.options.output);
        if let Some(codec) = self.options.codec {
            frame.compress = codec.as_root();
        }
        output.write_placeholder(BEGIN + frame.top_size())?;
        let mut totals = Totals::new(&first, self.options.codec)?;
        let mut lists = vec![first.info_list()?];
        let mut recompressor = self.options.codec.map(Recompressor::new);
        self.add(&first, recompressor.as_mut(), &mut totals, &mut output)?;
        for path in &self.options.inputs[1..] {
            let input = Input::open(path, self.options.tree.as_deref())?;
            schema::check_same(&first, &input)?;
            if !input.has_class_infos_of(&first) {
                lists.push(input.info_list()?);
            }
            self.add(&input, recompressor.as_mut(), &mut totals, &mut output)?;
        }
        self.finish(&first, frame, &totals, &lists, output)
    }

    fn add(
        &self,
        input: &Input,
        recompressor: Option<&mut Recompressor>,
        totals: &mut Totals,
        output: &mut Output,
    ) -> Result<()> {
        let mut copied = |bytes| {
            self.bytes_done.fetch_add(bytes, Ordering::Relaxed);
            self.check_stopped()
        };
        let laid = match recompressor {
            Some(recompressor) => recompressor.add(input, self.options.order, output, &mut copied)?,
            None => copy::copy_baskets(input, self.options.order, output, &mut copied)?,
        };
        totals.add(input, &laid)?;
        self.files_done.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Writes what comes behind the baskets, and what stands in front of them.
    fn finish(
        &self,
        first: &Input,
        frame: FileFrame,
        totals: &Totals,
        lists: &[(Vec<u8>, u64)],
        mut output: Output,
    ) -> Result<Merged> {
        let named = |error| ReadError::from_format(output_name(&self.options).as_str(), &error);
        let mut key = new_key(&first.key, output.end());
        let plain = totals.record(first, key.size())?;
        (key.object_size, key.stored_size) = (plain.len() as u64, plain.len() as u64);
        let key_bytes = key.bytes().map_err(named)?;
        output.write(&key_bytes)?;
        output.write(&plain)?;

        let mut info_key = NewKey { class_name: "TList", name: b"StreamerInfo", title: b"Doubly linked list", ..key };
        info_key.seek = output.end();
        let lists: Vec<(&[u8], u64)> = lists.iter().map(|(bytes, size)| (bytes.as_slice(), *size)).collect();
        let joined = join_infos(&lists, info_key.size()).map_err(named)?;
        (info_key.object_size, info_key.stored_size) = (joined.len() as u64, joined.len() as u64);
        let infos = RecordPlace { seek: info_key.seek, size: info_key.size() + joined.len() as u64 };
        output.write(&info_key.bytes().map_err(named)?)?;
        output.write(&joined)?;

        let seek = output.end();
        let list = frame.key_list(seek, &[key_bytes]).map_err(named)?;
        let keys = RecordPlace { seek, size: list.len() as u64 };
        output.write(&list)?;
        let seek = output.end();
        let list = frame.free_list(seek).map_err(named)?;
        let free = RecordPlace { seek, size: list.len() as u64 };
        output.write(&list)?;
        let mut head = frame.header(output.end(), free, infos).map_err(named)?;
        head.extend(frame.top(keys).map_err(named)?);
        let size_bytes = output.end();
        self.check_stopped()?;
        output.finish(&head)?;
        let (baskets_count, basket_bytes) = totals.baskets();
        let entries_count = totals.entries_count();
        Ok(Merged { entries_count, baskets_count, basket_bytes, size_bytes, left_out: totals.left_out(first) })
    }
}

fn output_name(options: &MergeOptions) -> String {
    options.output.display().to_string()
}

fn new_key(old: &TKey, seek: u64) -> NewKey<'_> {
    NewKey {
        class_name: &old.class_name,
        name: old.name.as_bytes(),
        title: old.title.as_bytes(),
        object_size: 0,
        stored_size: 0,
        date: old.date,
        seek,
        seek_directory: BEGIN,
    }
}
