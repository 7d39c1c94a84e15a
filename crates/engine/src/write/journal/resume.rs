//! What is known of the inputs of a merge that are on the disk: of those of a merge that was killed, and of one's own.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Instant;

use xxhash_rust::xxh3::xxh3_128;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::limits;
use crate::write::baskets::rewrite::Flushed;
use crate::write::journal::writer::{start_of_machine, told, Noting};
use crate::write::journal::{Contents, Done, Journal, Laying, Merging, Noted};
use crate::write::merge::input::Input;
use crate::write::merge::{numbered, MergeOptions};
use crate::write::output::{self, Output, Written};

/// Notes what is on the disk, and knows what was there already.
pub(crate) struct Keeping<'a> {
    options: &'a MergeOptions,
    /// Not all merges can be gone on with.
    is_on: bool,
    merging: Merging,
    /// In the names of what has not its own yet.
    pub(crate) number: u32,
    /// Outputs that are there already.
    pub(crate) outputs_count: usize,
    /// What a merge that was killed had done.
    kept: VecDeque<Done>,
    /// New baskets that lie in the outputs, by the number of these and the path of their tree.
    laid: HashMap<(u64, String), VecDeque<Flushed>>,
    /// The input of which some of them are last, and what it was.
    begun: Option<(u64, u128)>,
    /// The number of the input that is being added and what it is, once one is.
    current: (u64, u128),
    is_begun: bool,
    noting: Noting,
    /// Records that are not in the journal yet.
    waiting: Vec<u8>,
    /// When and how far it was written.
    written_at: Instant,
    written_bytes: u64,
    /// What is to be known of it.
    pub(crate) note: Option<String>,
}

impl<'a> Keeping<'a> {
    /// Looks for what a merge that was killed left, if it is to be gone on with.
    pub(crate) fn begin(options: &'a MergeOptions) -> Result<Self> {
        let is_on = options.records_at.is_none();
        let waits = !options.skips_sync;
        let start = if waits { 0 } else { start_of_machine().unwrap_or(u128::MAX) };
        let merging = Merging { inputs: digest_of_inputs(options), options: digest_of(options), start };
        let number = std::process::id();
        let mut own = Self {
            options,
            is_on,
            merging,
            number,
            outputs_count: 0,
            kept: VecDeque::new(),
            laid: HashMap::new(),
            begun: None,
            current: (0, 0),
            is_begun: false,
            noting: Noting::new(&output_of(options), journal_of(options, number), (merging, waits), None),
            waiting: Vec::new(),
            written_at: Instant::now(),
            written_bytes: 0,
            note: None,
        };
        if options.resumes {
            if !is_on {
                return Err(own.refused("it has a hole in it, which cannot be gone on with"));
            }
            own.find()?;
        }
        Ok(own)
    }

    fn refused(&self, message: &str) -> ReadError {
        ReadError::new(ReadErrorKind::Option, &self.options.output.display().to_string(), message)
            .with_hint("leave --resume out: the merge begins anew")
    }

    fn told(&self, error: &io::Error) -> ReadError {
        told(&output_of(self.options), error)
    }

    fn find(&mut self) -> Result<()> {
        self.note = Some("nothing was left to go on with: the merge began anew".to_string());
        let Some(number) = output::left_of(&self.options.output) else { return Ok(()) };
        let path = journal_of(self.options, number);
        let bytes = fs::read(&path).map_err(|error| self.told(&error))?;
        let read = Contents::read(&bytes);
        // What may not have come to the disk is good as long as the machine runs.
        let is_good = |merging: &Merging| merging.start == 0 || Some(merging.start) == start_of_machine();
        let Some(Contents { merging, noted }) = read.filter(|contents| is_good(&contents.merging)) else {
            self.note = Some("what was left could not be trusted: the merge began anew".to_string());
            return Ok(());
        };
        if merging.inputs != self.merging.inputs {
            return Err(self.refused("what was left of it is of other inputs, or of the same in another order"));
        }
        if merging.options != self.merging.options {
            return Err(self.refused("what was left of it was made with other options, or by another version"));
        }
        // A file that is shorter than it was is not what it was.
        let size_of = |volume: u64| {
            let path = output::temporary_of(&numbered(&self.options.output, volume as usize), number);
            fs::metadata(path).map_or(0, |about| about.len())
        };
        let is_there = |(volume, end)| end == 0 || size_of(volume) >= end;
        let trusted: Vec<(Noted, u64)> = noted.into_iter().take_while(|(one, _)| is_there(one.reaches())).collect();
        let Some((_, end)) = trusted.last() else { return Ok(()) };
        let journal = Journal::go_on(&path, *end).map_err(|error| self.told(&error))?;
        self.number = number;
        // What is noted from now on is worth as much as what was.
        let waits = merging.start == 0;
        self.noting = Noting::new(&output_of(self.options), path, (merging, waits), Some(journal));
        if self.options.rewriting.is_some() {
            // What lies behind is of a time of which nothing is known.
            let (volume, end) = trusted.iter().map(|(one, _)| one.reaches()).max().unwrap_or_default();
            let path = output::temporary_of(&numbered(&self.options.output, volume as usize), number);
            let cut = fs::OpenOptions::new().write(true).open(path).and_then(|file| file.set_len(end));
            cut.map_err(|error| self.told(&error))?;
        }
        self.keep(trusted.into_iter().map(|(noted, _)| noted));
        Ok(())
    }

    /// Takes over what was noted.
    fn keep(&mut self, noted: impl Iterator<Item = Noted>) {
        let most = self.options.inputs.len();
        let mut entries_count = 0;
        for one in noted {
            let (volume, end) = one.reaches();
            if end > 0 {
                self.outputs_count = self.outputs_count.max(volume as usize + 1);
            }
            match one {
                Noted::Done(done) if self.kept.len() < most => self.kept.push_back(done),
                Noted::Done(_) => {}
                Noted::Laying(Laying { input, identity, volume, path, flushed }) => {
                    entries_count += flushed.entries_count;
                    self.begun = Some((input, identity));
                    self.laid.entry((volume, path)).or_default().push_back(flushed);
                }
            }
        }
        let count = self.kept.len();
        self.note = Some(match entries_count {
            0 => format!("went on behind {count} of {most} files, which were on the disk already"),
            _ => format!("went on behind {entries_count} entries, which were on the disk already"),
        });
    }

    /// What tells an input from others, if anybody wants to know.
    pub(crate) fn identity_of(&self, input: &Result<Input>) -> u128 {
        input.as_ref().map_or(0, |input| if self.is_on { input.identity } else { 0 })
    }

    /// What became of the next input before, and whether it is the last of which this is known. An input that has
    /// changed since is refused.
    pub(crate) fn next(&mut self, path: &str, identity: u128) -> Result<Option<(Done, bool)>> {
        self.current = (self.current.0 + u64::from(self.is_begun), identity);
        self.is_begun = true;
        let Some(done) = self.kept.pop_front() else {
            let begun = self.begun.take_if(|(number, _)| *number == self.current.0);
            return match begun {
                Some((_, known)) if known != identity => Err(changed(path)),
                _ => Ok(None),
            };
        };
        // One that could not be opened may be whole again, but was left out.
        if done.identity != 0 && done.identity != identity {
            return Err(changed(path));
        }
        Ok(Some((done, self.kept.is_empty())))
    }

    /// Refuses to go on where the inputs that were there already do not lead to where they did.
    pub(crate) fn check(&self, done: &Done, (volume, end): (u64, u64)) -> Result<()> {
        // Where new baskets end depends on how far their making was.
        if self.options.rewriting.is_some() || (done.volume, done.end) == (volume, end) {
            return Ok(());
        }
        Err(self.refused("what was left of it is not what these inputs make"))
    }

    /// What lies already of a tree in an output whose entries come to new baskets.
    pub(crate) fn laid_of(&mut self, volume: u64, path: &str) -> VecDeque<Flushed> {
        self.laid.remove(&(volume, path.to_string())).unwrap_or_default()
    }

    /// Notes what became of an input.
    pub(crate) fn add(&mut self, done: &Done, bytes_done: u64, output: Option<&Output>) -> Result<()> {
        if !self.is_on {
            return Ok(());
        }
        self.waiting.extend(done.record());
        self.write_due(bytes_done, output)
    }

    /// Notes new baskets of a tree.
    pub(crate) fn add_laid(
        &mut self,
        (volume, path): (u64, &str),
        all: Vec<Flushed>,
        bytes_done: u64,
        output: &Output,
    ) -> Result<()> {
        if !self.is_on {
            return Ok(());
        }
        let (input, identity) = self.current;
        for flushed in all {
            let laying = Laying { input, identity, volume, path: path.to_string(), flushed };
            self.waiting.extend(Noted::Laying(laying).record());
        }
        self.write_due(bytes_done, Some(output))
    }

    /// When much has come together it is brought to the disk, the output first, while more is written.
    fn write_due(&mut self, bytes_done: u64, output: Option<&Output>) -> Result<()> {
        let bytes_max = self.options.journal_bytes.unwrap_or(limits::JOURNAL_BYTES);
        let is_due = bytes_done.saturating_sub(self.written_bytes) >= bytes_max
            || self.written_at.elapsed() >= limits::JOURNAL_PAUSE;
        // Outputs before the current one are on the disk since they are whole.
        let Some(output) = output.filter(|_| is_due) else { return Ok(()) };
        self.noting.note(output.written()?, std::mem::take(&mut self.waiting))?;
        (self.written_at, self.written_bytes) = (Instant::now(), bytes_done);
        Ok(())
    }

    /// Waits until all that is due is noted, before the outputs have their names; where these are several, all of it,
    /// so that after a kill in between it is known whose they are. What the disk refused of it meanwhile it says only
    /// once, and only there.
    pub(crate) fn settle(&mut self, outputs_count: usize, last: Written) -> Result<()> {
        if self.is_on && outputs_count > 1 && !self.waiting.is_empty() {
            self.noting.note(last, std::mem::take(&mut self.waiting))?;
        }
        self.noting.settle()
    }

    /// The merge is whole.
    pub(crate) fn end(self) {
        self.noting.end();
    }
}

fn output_of(options: &MergeOptions) -> String {
    options.output.display().to_string()
}

/// Where the journal lies of the merge with this number.
fn journal_of(options: &MergeOptions, number: u32) -> PathBuf {
    output::journal_of(&output::temporary_of(&options.output, number))
}

fn changed(path: &str) -> ReadError {
    let message = "it changed since the merge that was to be gone on with";
    ReadError::new(ReadErrorKind::Option, path, message).with_hint("leave --resume out: the merge begins anew")
}

fn digest_of_inputs(options: &MergeOptions) -> u128 {
    xxh3_128(format!("{:?}", options.inputs).as_bytes())
}

/// Of all options that decide how inputs are laid down.
fn digest_of(options: &MergeOptions) -> u128 {
    let MergeOptions { tree, order, codec, size_bytes_max, skips_bad_files, rewriting, .. } = options;
    let mut branches: Vec<(&String, Vec<&String>)> =
        options.branches.iter().map(|(path, names)| (path, names.iter().collect())).collect();
    branches.iter_mut().for_each(|(_, names)| names.sort());
    branches.sort();
    let version = env!("CARGO_PKG_VERSION");
    let bundle_bytes = options.bundle_bytes();
    let memory_bytes = rewriting.map(|_| options.memory_bytes);
    let mut kept: Vec<(&String, u128)> =
        options.selections.iter().map(|(path, selection)| (path, selection.digest())).collect();
    kept.sort();
    let slow = (rewriting, memory_bytes, kept, &options.selected);
    let all = (version, tree, order, codec, size_bytes_max, skips_bad_files, branches, bundle_bytes, slow);
    xxh3_128(format!("{all:?}").as_bytes())
}
