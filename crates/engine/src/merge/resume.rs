//! What is known of the inputs of a merge that are on the disk: of those of a merge that was killed, and of one's own.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Instant;

use xxhash_rust::xxh3::xxh3_128;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::limits;
use crate::output::{self, Output};

use super::input::Input;
use super::journal::{Contents, Done, Journal, Merging};
use super::{numbered, MergeOptions};

/// Notes what is on the disk, and knows what was there already.
pub(super) struct Keeping<'a> {
    options: &'a MergeOptions,
    /// Not all merges can be gone on with.
    is_on: bool,
    merging: Merging,
    /// In the names of what has not its own yet.
    pub(super) number: u32,
    /// Outputs that are there already.
    pub(super) outputs_count: usize,
    /// What a merge that was killed had done.
    kept: VecDeque<Done>,
    journal: Option<Journal>,
    /// Records that are not in the journal yet.
    waiting: Vec<u8>,
    /// When and how far it was written.
    written_at: Instant,
    written_bytes: u64,
    /// What is to be known of it.
    pub(super) note: Option<String>,
}

impl<'a> Keeping<'a> {
    /// Looks for what a merge that was killed left, if it is to be gone on with.
    pub(super) fn begin(options: &'a MergeOptions) -> Result<Self> {
        let is_on = options.rewriting.is_none() && options.records_at.is_none();
        let mut own = Self {
            options,
            is_on,
            merging: Merging { inputs: digest_of_inputs(options), options: digest_of(options) },
            number: std::process::id(),
            outputs_count: 0,
            kept: VecDeque::new(),
            journal: None,
            waiting: Vec::new(),
            written_at: Instant::now(),
            written_bytes: 0,
            note: None,
        };
        if options.resumes {
            if !is_on {
                let message = "entries are written to new baskets, which cannot be gone on with yet";
                return Err(own.refused(message).with_hint("leave --resume out: the merge begins anew"));
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
        let message = format!("cannot note how far the merge is: {error}");
        ReadError::new(ReadErrorKind::Output, &self.options.output.display().to_string(), message)
    }

    /// Where the journal lies of the merge with this number.
    fn journal_of(&self, number: u32) -> PathBuf {
        output::journal_of(&output::temporary_of(&self.options.output, number))
    }

    fn find(&mut self) -> Result<()> {
        self.note = Some("nothing was left to go on with: the merge began anew".to_string());
        let Some(number) = output::left_of(&self.options.output) else { return Ok(()) };
        let path = self.journal_of(number);
        let bytes = fs::read(&path).map_err(|error| self.told(&error))?;
        let Some(Contents { merging, done }) = Contents::read(&bytes) else {
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
        let most = self.options.inputs.len();
        let trusted = done.into_iter().take(most).take_while(|(one, _)| one.end == 0 || size_of(one.volume) >= one.end);
        let (kept, ends): (VecDeque<Done>, Vec<u64>) = trusted.unzip();
        let Some(end) = ends.last() else { return Ok(()) };
        let journal = Journal::go_on(&path, *end).map_err(|error| self.told(&error))?;
        let there = kept.iter().filter(|one| one.end > 0).map(|one| one.volume as usize + 1);
        self.outputs_count = there.max().unwrap_or(0);
        self.note = Some(format!("went on behind {} of {most} files, which were on the disk already", kept.len()));
        (self.number, self.journal, self.kept) = (number, Some(journal), kept);
        Ok(())
    }

    /// What tells an input from others, if anybody wants to know.
    pub(super) fn identity_of(&self, input: &Result<Input>) -> u128 {
        input.as_ref().map_or(0, |input| if self.is_on { input.identity() } else { 0 })
    }

    /// What became of the next input before, and whether it is the last of which this is known. An input that has
    /// changed since is refused.
    pub(super) fn next(&mut self, path: &str, identity: u128) -> Result<Option<(Done, bool)>> {
        let Some(done) = self.kept.pop_front() else { return Ok(None) };
        // One that could not be opened may be whole again, but was left out.
        if done.identity != 0 && done.identity != identity {
            let message = "it changed since the merge that was to be gone on with";
            let hint = "leave --resume out: the merge begins anew";
            return Err(ReadError::new(ReadErrorKind::Option, path, message).with_hint(hint));
        }
        Ok(Some((done, self.kept.is_empty())))
    }

    /// Refuses to go on where the inputs that were there already do not lead to where they did.
    pub(super) fn check(&self, done: &Done, (volume, end): (u64, u64)) -> Result<()> {
        if (done.volume, done.end) == (volume, end) {
            return Ok(());
        }
        Err(self.refused("what was left of it is not what these inputs make"))
    }

    /// Notes what became of an input. When much has come together it is brought to the disk, the output first.
    pub(super) fn add(&mut self, done: &Done, bytes_done: u64, output: Option<&Output>) -> Result<()> {
        if !self.is_on {
            return Ok(());
        }
        self.waiting.extend(done.record());
        let bytes_max = self.options.journal_bytes.unwrap_or(limits::JOURNAL_BYTES);
        let is_due = bytes_done.saturating_sub(self.written_bytes) >= bytes_max
            || self.written_at.elapsed() >= limits::JOURNAL_PAUSE;
        // Outputs before the current one are on the disk since they are whole.
        let Some(output) = output.filter(|_| is_due) else { return Ok(()) };
        output.sync_data()?;
        let journal = match self.journal.take() {
            Some(journal) => Ok(journal),
            None => Journal::begin(&self.journal_of(self.number), self.merging),
        };
        let written = journal.and_then(|mut journal| journal.append(&self.waiting).map(|()| journal));
        self.journal = Some(written.map_err(|error| self.told(&error))?);
        self.waiting.clear();
        (self.written_at, self.written_bytes) = (Instant::now(), bytes_done);
        Ok(())
    }

    /// The merge is whole.
    pub(super) fn end(self) {
        if let Some(journal) = self.journal {
            journal.end();
        }
    }
}

fn digest_of_inputs(options: &MergeOptions) -> u128 {
    xxh3_128(format!("{:?}", options.inputs).as_bytes())
}

/// Of all options that decide how inputs are laid down.
fn digest_of(options: &MergeOptions) -> u128 {
    let MergeOptions { tree, order, codec, size_bytes_max, skips_bad_files, .. } = options;
    let mut branches: Vec<(&String, Vec<&String>)> =
        options.branches.iter().map(|(path, names)| (path, names.iter().collect())).collect();
    branches.iter_mut().for_each(|(_, names)| names.sort());
    branches.sort();
    let version = env!("CARGO_PKG_VERSION");
    let bundle_bytes = options.bundle_bytes();
    let all = (version, tree, order, codec, size_bytes_max, skips_bad_files, branches, bundle_bytes);
    xxh3_128(format!("{all:?}").as_bytes())
}
