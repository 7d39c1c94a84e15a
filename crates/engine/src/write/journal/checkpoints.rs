//! The checkpoints of a merge: which inputs and clusters are surely in its outputs. A merge that resumes reads those
//! of the merge that was killed.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Instant;

use xxhash_rust::xxh3::xxh3_128;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::limits;
use crate::write::errors::{not_resumable, other_leftovers};
use crate::write::journal::file::JournalFile;
use crate::write::journal::records::{
    ClusterRecord, InputRecord, JournalContents, JournalHeader, Position, ReadRecord, Record,
};
use crate::write::journal::writer::{failed, machine_start, JournalPlace, JournalWriter};
use crate::write::output::leftovers::{journal_of, left_of, numbered, temporary_of};
use crate::write::output::{Output, Written};
use crate::write::placed::PlacedCluster;
use crate::write::request::MergeRequest;

/// Writes checkpoints, and has those of a killed merge.
pub(crate) struct Checkpoints<'a> {
    request: &'a MergeRequest,
    header: JournalHeader,
    /// The number of the process in the names of outputs that are not whole.
    pub(crate) number: u32,
    /// Outputs that a killed merge left.
    pub(crate) outputs_count: usize,
    /// The inputs that it had recorded and that were not taken yet.
    inputs_before: VecDeque<InputRecord>,
    /// The clusters that it had recorded, by the number of the output and the path of the tree.
    clusters_before: HashMap<(u64, String), VecDeque<PlacedCluster>>,
    /// The input of the last of them.
    last_cluster_of: Option<NumberedInput>,
    /// The input that is being added.
    current: Option<NumberedInput>,
    writer: JournalWriter,
    /// Records that are not handed to the writer yet.
    waiting: Vec<u8>,
    /// When the writer got records last, and how many bytes had been written then.
    written_at: Instant,
    written_bytes: u64,
    /// A sentence for the user on what was resumed.
    pub(crate) note: Option<String>,
}

/// The number of an input, and its identity.
#[derive(Debug, Clone, Copy)]
struct NumberedInput {
    number: u64,
    identity: u128,
}

/// What a killed merge had recorded of an input.
pub(crate) struct RecordedInput {
    pub(crate) record: InputRecord,
    /// Whether it had recorded no further input.
    pub(crate) is_last: bool,
}

impl<'a> Checkpoints<'a> {
    /// Begins the journal of a merge. Looks for what a killed merge left, if it is to be resumed.
    pub(crate) fn begin(request: &'a MergeRequest) -> Result<Self> {
        let syncs = !request.skips_sync;
        let machine_start = if syncs { 0 } else { machine_start().unwrap_or(u128::MAX) };
        let header =
            JournalHeader { inputs: digest_of_inputs(request), options: digest_of_options(request), machine_start };
        let number = std::process::id();
        let place =
            JournalPlace { output: request.output.clone(), journal: journal_at(request, number), header, syncs };
        let mut own = Self {
            request,
            header,
            number,
            outputs_count: 0,
            inputs_before: VecDeque::new(),
            clusters_before: HashMap::new(),
            last_cluster_of: None,
            current: None,
            writer: JournalWriter::new(place, None),
            waiting: Vec::new(),
            written_at: Instant::now(),
            written_bytes: 0,
            note: None,
        };
        if request.resumes {
            own.resume()?;
        }
        Ok(own)
    }

    fn failed(&self, error: &io::Error) -> ReadError {
        failed(&self.request.output, error)
    }

    /// Reads the journal that a killed merge left.
    fn resume(&mut self) -> Result<()> {
        let output = &self.request.output;
        self.note = Some("nothing was left to resume: the merge began again".to_string());
        let Some(number) = left_of(output) else { return Ok(()) };
        let path = journal_at(self.request, number);
        let bytes = fs::read(&path).map_err(|error| self.failed(&error))?;
        let read = JournalContents::read(&bytes);
        // A journal without sync counts only until the machine restarts.
        let counts =
            |header: &JournalHeader| header.machine_start == 0 || Some(header.machine_start) == machine_start();
        let Some(JournalContents { header, records }) = read.filter(|contents| counts(&contents.header)) else {
            self.note = Some("what was left could not be trusted: the merge began again".to_string());
            return Ok(());
        };
        if header.inputs != self.header.inputs {
            let message = "what was left of it is of other inputs, or of the same in another order";
            return Err(not_resumable(output, message));
        }
        if header.options != self.header.options {
            let message = "what was left of it was made with other options, or by another version";
            return Err(not_resumable(output, message));
        }
        let file_of = |volume: u64| temporary_of(&numbered(output, volume as usize), number);
        // An output that is shorter than it was is not what it was.
        let size_of = |volume: u64| fs::metadata(file_of(volume)).map_or(0, |metadata| metadata.len());
        let is_there = |position: Position| position.end == 0 || size_of(position.volume) >= position.end;
        let trusted: Vec<ReadRecord> = records.into_iter().take_while(|one| is_there(one.record.position())).collect();
        let Some(ReadRecord { end, .. }) = trusted.last() else { return Ok(()) };
        let file = JournalFile::resume(&path, *end).map_err(|error| self.failed(&error))?;
        self.number = number;
        // Later records are written as the earlier ones were: with syncs or without.
        let syncs = header.machine_start == 0;
        let place = JournalPlace { output: output.clone(), journal: path, header, syncs };
        self.writer = JournalWriter::new(place, Some(file));
        if self.request.has_new_baskets() {
            // The bytes behind the last recorded cluster are not known.
            let Position { volume, end } = trusted.iter().map(|one| one.record.position()).max().unwrap_or_default();
            let cut = fs::OpenOptions::new().write(true).open(file_of(volume)).and_then(|file| file.set_len(end));
            cut.map_err(|error| self.failed(&error))?;
        }
        self.take_over(trusted);
        Ok(())
    }

    fn take_over(&mut self, records: Vec<ReadRecord>) {
        let most = self.request.inputs.len();
        let mut entries_count = 0;
        for ReadRecord { record, .. } in records {
            let position = record.position();
            if position.end > 0 {
                self.outputs_count = self.outputs_count.max(position.volume as usize + 1);
            }
            match record {
                Record::Input(input) if self.inputs_before.len() < most => self.inputs_before.push_back(input),
                Record::Input(_) => {}
                Record::Cluster(ClusterRecord { input, identity, volume, path, cluster }) => {
                    entries_count += cluster.entries_count;
                    self.last_cluster_of = Some(NumberedInput { number: input, identity });
                    self.clusters_before.entry((volume, path)).or_default().push_back(cluster);
                }
            }
        }
        let count = self.inputs_before.len();
        self.note = Some(match entries_count {
            0 => format!("resumed behind {count} of {most} files, which were on the disk already"),
            _ => format!("resumed behind {entries_count} entries, which were on the disk already"),
        });
    }

    /// What a killed merge had recorded of the next input. An input that has changed since is refused.
    pub(crate) fn next(&mut self, path: &str, identity: u128) -> Result<Option<RecordedInput>> {
        let number = self.current.map_or(0, |current| current.number + 1);
        self.current = Some(NumberedInput { number, identity });
        let Some(record) = self.inputs_before.pop_front() else {
            return match self.last_cluster_of.take_if(|last| last.number == number) {
                Some(last) if last.identity != identity => Err(changed(path)),
                _ => Ok(None),
            };
        };
        // An input that could not be opened then was left out, even if it can be opened now.
        if record.identity != 0 && record.identity != identity {
            return Err(changed(path));
        }
        Ok(Some(RecordedInput { record, is_last: self.inputs_before.is_empty() }))
    }

    /// Refuses to resume where an input that had been recorded does not end where it did.
    pub(crate) fn check(&self, record: &InputRecord, position: Position) -> Result<()> {
        // Where new baskets end depends on how far the threads were.
        if self.request.has_new_baskets() || record.position == position {
            return Ok(());
        }
        Err(other_leftovers(&self.request.output))
    }

    /// The clusters of a tree that a killed merge had recorded.
    pub(crate) fn clusters_of(&mut self, volume: u64, path: &str) -> VecDeque<PlacedCluster> {
        self.clusters_before.remove(&(volume, path.to_string())).unwrap_or_default()
    }

    /// Records an input that was added or left out.
    pub(crate) fn add_input(
        &mut self,
        record: InputRecord,
        bytes_done: u64,
        output: Option<&mut Output>,
    ) -> Result<()> {
        self.waiting.extend(Record::Input(record).bytes());
        self.write_if_due(bytes_done, output)
    }

    /// Records new clusters of a tree.
    pub(crate) fn add_clusters(
        &mut self,
        volume: u64,
        path: &str,
        clusters: Vec<PlacedCluster>,
        bytes_done: u64,
        output: &mut Output,
    ) -> Result<()> {
        let (input, identity) = self.current.map_or((0, 0), |current| (current.number, current.identity));
        for cluster in clusters {
            let record = ClusterRecord { input, identity, volume, path: path.to_string(), cluster };
            self.waiting.extend(Record::Cluster(record).bytes());
        }
        self.write_if_due(bytes_done, Some(output))
    }

    fn write_if_due(&mut self, bytes_done: u64, output: Option<&mut Output>) -> Result<()> {
        let is_due = bytes_done.saturating_sub(self.written_bytes) >= self.request.limits.journal_bytes
            || self.written_at.elapsed() >= limits::JOURNAL_PAUSE;
        // Outputs before the current one are on the disk since they are whole.
        let Some(output) = output.filter(|_| is_due) else { return Ok(()) };
        self.writer.write(output.written()?, std::mem::take(&mut self.waiting))?;
        (self.written_at, self.written_bytes) = (Instant::now(), bytes_done);
        Ok(())
    }

    /// Waits until all that is due is written, before the outputs have their names. Where there are several outputs all
    /// records are, so that after a kill in between it is known whose they are. An error of the disk that happened
    /// meanwhile is reported here only.
    pub(crate) fn settle(&mut self, outputs_count: usize, last: Written) -> Result<()> {
        if outputs_count > 1 && !self.waiting.is_empty() {
            self.writer.write(last, std::mem::take(&mut self.waiting))?;
        }
        self.writer.settle()
    }

    /// Removes the journal: the merge is whole.
    pub(crate) fn remove(self) {
        self.writer.remove();
    }
}

/// The path of the journal of the process with this number.
fn journal_at(request: &MergeRequest, number: u32) -> PathBuf {
    journal_of(&temporary_of(&request.output, number))
}

fn changed(path: &str) -> ReadError {
    let message = "it changed since the merge that is to be resumed";
    ReadError::new(ReadErrorKind::Option, path, message).with_hint("leave --resume out: the merge begins again")
}

fn digest_of_inputs(request: &MergeRequest) -> u128 {
    xxh3_128(format!("{:?}", request.inputs).as_bytes())
}

/// Digest of all options that decide how inputs are laid out.
fn digest_of_options(request: &MergeRequest) -> u128 {
    let MergeRequest { tree, order, codec, size_bytes_max, skips_bad_files, layout, .. } = request;
    let skips_and_fills = (skips_bad_files, request.fills_missing_branches);
    let mut branches: Vec<(&String, Vec<&String>)> =
        request.branches.iter().map(|(path, names)| (path, names.iter().collect())).collect();
    branches.iter_mut().for_each(|(_, names)| names.sort());
    branches.sort();
    let version = env!("CARGO_PKG_VERSION");
    let bundle_bytes = request.limits.bundle_bytes();
    let memory_bytes = request.has_new_baskets().then_some(request.limits.memory_bytes);
    let mut selections: Vec<(&String, u128)> =
        request.selections.iter().map(|(path, selection)| (path, selection.digest())).collect();
    selections.sort();
    let rewriting = (layout, memory_bytes, selections, &request.selected);
    let all = (version, tree, order, codec, size_bytes_max, skips_and_fills, branches, bundle_bytes, rewriting);
    xxh3_128(format!("{all:?}").as_bytes())
}
