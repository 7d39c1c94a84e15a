//! The checkpoints of a merge, which record which inputs and clusters are safely in its outputs. A resumed merge reads
//! the checkpoints of the killed merge.

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

/// Writes the checkpoints of a merge, and holds the records of a killed merge.
pub(crate) struct Checkpoints<'a> {
    request: &'a MergeRequest,
    header: JournalHeader,
    /// The process ID that is part of the outputs' temporary names.
    pub(crate) number: u32,
    /// Number of outputs that a killed merge left behind.
    pub(crate) outputs_count: usize,
    /// The recorded inputs of a killed merge that the resumed merge has not reached yet.
    inputs_before: VecDeque<InputRecord>,
    /// The recorded clusters of a killed merge, keyed by the index of the output and the path of the tree.
    clusters_before: HashMap<(u64, String), VecDeque<PlacedCluster>>,
    /// The input to which the last recorded cluster belongs.
    last_cluster_of: Option<NumberedInput>,
    /// The input that is being added.
    current: Option<NumberedInput>,
    writer: JournalWriter,
    /// Records that have not been passed to the writer yet.
    waiting: Vec<u8>,
    /// The time of the last checkpoint; `written_bytes` is the number of bytes that had been written by then.
    written_at: Instant,
    written_bytes: u64,
    /// A message for the user about how much of the merge was resumed.
    pub(crate) note: Option<String>,
}

/// The index and the identity of an input.
#[derive(Debug, Clone, Copy)]
struct NumberedInput {
    number: u64,
    identity: u128,
}

/// The record of an input from a killed merge.
pub(crate) struct RecordedInput {
    pub(crate) record: InputRecord,
    /// Whether this is the last recorded input.
    pub(crate) is_last: bool,
}

impl<'a> Checkpoints<'a> {
    /// Starts the checkpoints of a merge. If the request resumes a merge, reads the journal of the killed merge.
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

    /// Reads the journal left by a killed merge.
    fn resume(&mut self) -> Result<()> {
        let output = &self.request.output;
        self.note = Some("there was nothing to resume: the merge started from the beginning".to_string());
        let Some(number) = left_of(output) else { return Ok(()) };
        let path = journal_at(self.request, number);
        let bytes = fs::read(&path).map_err(|error| self.failed(&error))?;
        let read = JournalContents::read(&bytes);
        // A journal that was written without syncs is only valid until the machine restarts.
        let counts =
            |header: &JournalHeader| header.machine_start == 0 || Some(header.machine_start) == machine_start();
        let Some(JournalContents { header, records }) = read.filter(|contents| counts(&contents.header)) else {
            self.note = Some("the leftovers could not be trusted: the merge started from the beginning".to_string());
            return Ok(());
        };
        if header.inputs != self.header.inputs {
            let message = "its leftovers are from other inputs, or from the same inputs in another order";
            return Err(not_resumable(output, message));
        }
        if header.options != self.header.options {
            let message = "its leftovers are from a merge with other options, or by another version";
            return Err(not_resumable(output, message));
        }
        let file_of = |volume: u64| temporary_of(&numbered(output, volume as usize), number);
        // If an output is shorter than recorded, data were lost.
        let size_of = |volume: u64| fs::metadata(file_of(volume)).map_or(0, |metadata| metadata.len());
        let is_there = |position: Position| position.end == 0 || size_of(position.volume) >= position.end;
        let trusted: Vec<ReadRecord> = records.into_iter().take_while(|one| is_there(one.record.position())).collect();
        let Some(ReadRecord { end, .. }) = trusted.last() else { return Ok(()) };
        let file = JournalFile::resume(&path, *end).map_err(|error| self.failed(&error))?;
        self.number = number;
        // Write later records like the earlier ones: with syncs or without.
        let syncs = header.machine_start == 0;
        let place = JournalPlace { output: output.clone(), journal: path, header, syncs };
        self.writer = JournalWriter::new(place, Some(file));
        if self.request.has_new_baskets() {
            // Truncate the output after the last recorded cluster, because the content after that is unknown.
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
            0 => format!("resumed after {count} of {most} files, which had been written already"),
            _ => format!("resumed after {entries_count} entries, which had been written already"),
        });
    }

    /// Returns the record that a killed merge made of the next input, if any. Returns an error if the input has changed
    /// since then.
    pub(crate) fn next(&mut self, path: &str, identity: u128) -> Result<Option<RecordedInput>> {
        let number = self.current.map_or(0, |current| current.number + 1);
        self.current = Some(NumberedInput { number, identity });
        let Some(record) = self.inputs_before.pop_front() else {
            return match self.last_cluster_of.take_if(|last| last.number == number) {
                Some(last) if last.identity != identity => Err(changed(path)),
                _ => Ok(None),
            };
        };
        // An identity of 0 means that the input could not be opened and was skipped. It stays skipped even if it can be
        // opened now.
        if record.identity != 0 && record.identity != identity {
            return Err(changed(path));
        }
        Ok(Some(RecordedInput { record, is_last: self.inputs_before.is_empty() }))
    }

    /// Returns an error if adding a recorded input did not end at the recorded position of the output.
    pub(crate) fn check(&self, record: &InputRecord, position: Position) -> Result<()> {
        // With new baskets, the end of the output depends on the progress of the threads, so the position cannot be
        // compared.
        if self.request.has_new_baskets() || record.position == position {
            return Ok(());
        }
        Err(other_leftovers(&self.request.output))
    }

    /// Returns the clusters that a killed merge recorded for a tree.
    pub(crate) fn clusters_of(&mut self, volume: u64, path: &str) -> VecDeque<PlacedCluster> {
        self.clusters_before.remove(&(volume, path.to_string())).unwrap_or_default()
    }

    /// Records an input that was added or skipped.
    pub(crate) fn add_input(
        &mut self,
        record: InputRecord,
        bytes_done: u64,
        output: Option<&mut Output>,
    ) -> Result<()> {
        self.waiting.extend(Record::Input(record).bytes());
        self.write_if_due(bytes_done, output)
    }

    /// Records newly written clusters of a tree.
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
        // Only the current output needs a sync: all previous outputs were synced when they were finished.
        let Some(output) = output.filter(|_| is_due) else { return Ok(()) };
        self.writer.write(output.written()?, std::mem::take(&mut self.waiting))?;
        (self.written_at, self.written_bytes) = (Instant::now(), bytes_done);
        Ok(())
    }

    /// Waits until all records that are due have been written, before the outputs are published. If there are several
    /// outputs, writes all remaining records first, so that a resumed merge knows the inputs of every output. Also
    /// reports disk errors of earlier checkpoints.
    pub(crate) fn settle(&mut self, outputs_count: usize, last: Written) -> Result<()> {
        if outputs_count > 1 && !self.waiting.is_empty() {
            self.writer.write(last, std::mem::take(&mut self.waiting))?;
        }
        self.writer.settle()
    }

    /// Removes the journal after the merge is complete.
    pub(crate) fn remove(self) {
        self.writer.remove();
    }
}

/// Returns the path of the journal of the process with this ID.
fn journal_at(request: &MergeRequest, number: u32) -> PathBuf {
    journal_of(&temporary_of(&request.output, number))
}

fn changed(path: &str) -> ReadError {
    let message = "it has changed since the killed merge";
    ReadError::new(ReadErrorKind::Option, path, message).with_hint("start the merge again without --resume")
}

fn digest_of_inputs(request: &MergeRequest) -> u128 {
    xxh3_128(format!("{:?}", request.inputs).as_bytes())
}

/// Returns the digest of all options that affect the layout of the outputs.
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
