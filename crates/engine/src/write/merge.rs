//! Merges several files into one output, or into several of limited size.
//!
//! ```
//! use branchline_engine::write::merge::Merge;
//! use branchline_engine::write::MergeRequest;
//!
//! /// Merges in a thread, and prints the progress.
//! fn merge(request: MergeRequest) -> Result<(), branchline_engine::error::ReadError> {
//!     let merge = Merge::new(request);
//!     std::thread::scope(|scope| {
//!         let running = scope.spawn(|| merge.run());
//!         while !running.is_finished() {
//!             println!("{} inputs", merge.progress().files_done);
//!             std::thread::sleep(std::time::Duration::from_secs(1));
//!         }
//!         running.join().unwrap().map(|_| ())
//!     })
//! }
//! ```

pub(crate) mod info_lists;
pub(crate) mod input;
mod open_ahead;
mod publish;
pub(crate) mod unions;
mod verify;
mod volume;
mod volumes;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::{guarded, ReadError, ReadErrorKind, Result};
use crate::write::journal::checkpoints::{Checkpoints, RecordedInput};
use crate::write::journal::records::{InputRecord, SkipReason};
use crate::write::merge::input::Input;
use crate::write::merge::open_ahead::OpenAhead;
use crate::write::merge::publish::publish;
use crate::write::merge::unions::{JoinedUnions, UnionBuilders};
use crate::write::merge::verify::verify;
use crate::write::merge::volumes::Volumes;
use crate::write::merged::{Merged, SkippedInput};
use crate::write::placed::Placed;
use crate::write::products::output::Transfer;
use crate::write::request::MergeRequest;

/// A merge that other threads can monitor and stop.
#[derive(Debug)]
pub struct Merge {
    request: MergeRequest,
    files_done: AtomicU64,
    bytes_done: AtomicU64,
    is_stopped: AtomicBool,
}

/// A running merge.
struct Run<'a> {
    merge: &'a Merge,
    volumes: Volumes<'a>,
    checkpoints: Checkpoints<'a>,
    merged: Merged,
}

/// The result of opening all inputs once before the merge.
struct JoinedInputs {
    joined: JoinedUnions,
    /// The skipped inputs, each with the error that caused the skip.
    refused: HashMap<String, ReadError>,
}

/// The progress of a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MergeProgress {
    /// Number of inputs that have been merged or skipped.
    pub files_done: u64,
    /// Number of bytes of baskets and pages that have been written.
    pub bytes_done: u64,
}

impl Merge {
    /// Creates a merge that has not started yet.
    pub fn new(request: MergeRequest) -> Self {
        let (files_done, bytes_done) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { request, files_done, bytes_done, is_stopped: AtomicBool::new(false) }
    }

    /// The path of the output, or of the first output if there are several.
    pub fn output(&self) -> String {
        self.request.output.display().to_string()
    }

    /// The current progress.
    pub fn progress(&self) -> MergeProgress {
        let [files_done, bytes_done] = [&self.files_done, &self.bytes_done].map(|count| count.load(Ordering::Relaxed));
        MergeProgress { files_done, bytes_done }
    }

    /// Requests that the merge stop soon. Its outputs are then removed.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    fn check_stopped(&self) -> Result<()> {
        if self.is_stopped.load(Ordering::Relaxed) {
            return Err(self.error("the merge was stopped"));
        }
        Ok(())
    }

    fn error(&self, message: &str) -> ReadError {
        ReadError::new(ReadErrorKind::Refused, &self.output(), message)
    }

    /// Runs the merge. The outputs get their final names only when all of them are complete.
    ///
    /// # Errors
    ///
    /// Returns an error if an input cannot be merged (unless such inputs are skipped), if an output cannot be written,
    /// or if the merge is stopped.
    pub fn run(&self) -> Result<Merged> {
        let mut checkpoints = Checkpoints::begin(&self.request)?;
        let mut merged = Merged::default();
        merged.notes.extend(checkpoints.note.take());
        let JoinedInputs { joined: JoinedUnions { unions, infos }, refused } = self.joined_inputs()?;
        let volumes = Volumes::new(&self.request, &checkpoints, infos);
        let mut run = Run { merge: self, volumes, checkpoints, merged };
        OpenAhead::new(&self.request, unions).run(|path, input| {
            self.check_stopped()?;
            let input = refused.get(path).cloned().map_or(input, Err);
            guarded(path, || run.next(path, input)).map_err(|error| self.named(error))?;
            self.files_done.fetch_add(1, Ordering::Relaxed);
            Ok(())
        })?;
        guarded(&self.output(), || run.finish())
    }

    /// Adds the path of the output to an internal error.
    fn named(&self, error: ReadError) -> ReadError {
        match error.kind {
            ReadErrorKind::Internal => error.in_object(format!("while merging into {}", self.output())),
            _ => error,
        }
    }

    /// Returns the union of the branches of all inputs. The union is empty unless missing branches are to be filled.
    fn joined_inputs(&self) -> Result<JoinedInputs> {
        let mut refused = HashMap::new();
        if !self.request.fills_missing_branches {
            return Ok(JoinedInputs { joined: JoinedUnions::default(), refused });
        }
        let mut builders = UnionBuilders::default();
        OpenAhead::new(&self.request, JoinedUnions::default().unions).run(|path, input| {
            self.check_stopped()?;
            match input.and_then(|input| builders.add(&input)) {
                Err(error) if self.request.skips(&error) => {
                    refused.insert(path.to_string(), error);
                    Ok(())
                }
                joined => joined,
            }
        })?;
        Ok(JoinedInputs { joined: builders.finish()?, refused })
    }
}

impl Run<'_> {
    /// Adds the next input, or restores it from the journal of a killed merge.
    fn next(&mut self, path: &str, input: Result<Input>) -> Result<()> {
        let identity = input.as_ref().map_or(0, |input| input.identity);
        let recorded = self.checkpoints.next(path, identity);
        // If the input cannot be opened, report that error instead of claiming that the input has changed.
        match recorded.map_err(|changed| input.as_ref().err().cloned().unwrap_or(changed))? {
            Some(RecordedInput { record, is_last }) => {
                self.add_recorded(path, input, &record)?;
                self.checkpoints.check(&record, self.volumes.position())?;
                if is_last && !self.merge.request.has_new_baskets() {
                    self.volumes.cut()?;
                }
                Ok(())
            }
            None => {
                let mut record = self.take(path, input)?;
                (record.identity, record.position) = (identity, self.volumes.position());
                let output = self.volumes.current.as_mut().map(|volume| volume.output());
                self.checkpoints.add_input(record, self.merge.progress().bytes_done, output)
            }
        }
    }

    /// Adds an input, or skips it if it cannot be merged. Returns the input's record for the journal.
    fn take(&mut self, path: &str, input: Result<Input>) -> Result<InputRecord> {
        match input.and_then(|input| self.add(input, None)) {
            Ok(trees) => {
                self.merged.files_count += 1;
                Ok(InputRecord { trees, ..InputRecord::default() })
            }
            Err(error) if self.merge.request.skips(&error) && !self.volumes.is_torn() => {
                let (kind, message, hint) = (error.kind, error.message.clone(), error.hint.clone());
                let skipped = Some(SkipReason { kind, message, hint, retry_may_help: error.retry_may_help });
                self.merged.skipped.push(SkippedInput { path: path.to_string(), error });
                Ok(InputRecord { skipped, ..InputRecord::default() })
            }
            Err(error) if self.merge.request.skips(&error) => {
                Err(error.with_hint("a part of it is already in the output: remove it from the inputs and start again"))
            }
            Err(error) => Err(error),
        }
    }

    /// Restores an input from its record: adds the input, whose baskets a killed merge already wrote, or skips it
    /// again.
    fn add_recorded(&mut self, path: &str, input: Result<Input>, record: &InputRecord) -> Result<()> {
        let Some(reason) = &record.skipped else {
            self.merged.files_count += 1;
            return self.add(input?, Some(record.trees.clone())).map(|_| ());
        };
        if record.identity != 0 {
            // The input was skipped only after an output had been opened for it, so open that output again.
            self.volumes.make_room(&input?)?;
        }
        let SkipReason { kind, message, hint, retry_may_help } = reason.clone();
        let error = ReadError { hint, retry_may_help, ..ReadError::new(kind, path, message) };
        self.merged.skipped.push(SkippedInput { path: path.to_string(), error });
        Ok(())
    }

    /// Adds an input. Returns the locations of the baskets of each of its trees. `written_before` has these locations
    /// if a killed merge already wrote the baskets.
    fn add(&mut self, input: Input, written_before: Option<Vec<Vec<Placed>>>) -> Result<Vec<Vec<Placed>>> {
        self.volumes.make_room(&input)?;
        let merge = self.merge;
        let mut progress = |bytes| {
            merge.bytes_done.fetch_add(bytes, Ordering::Relaxed);
            merge.check_stopped()
        };
        let mut transfer = Transfer {
            request: &merge.request,
            recompressor: self.volumes.recompressor.as_mut(),
            process_ids_before: 0,
            written_before: written_before.map(Vec::into_iter),
            placed: Vec::new(),
            copies: HashMap::new(),
            progress: &mut progress,
            checkpoints: &mut self.checkpoints,
            volume: self.volumes.finished.len() as u64,
            bytes_done: &merge.bytes_done,
        };
        let Some(volume) = &mut self.volumes.current else {
            return Err(ReadError::internal(input.file.path(), "no output was opened for it"));
        };
        volume.add(input, &mut transfer)?;
        Ok(transfer.placed)
    }

    /// Finishes the outputs, and renames them to their final names.
    fn finish(mut self) -> Result<Merged> {
        self.volumes.close()?;
        let (merge, mut finished) = (self.merge, self.volumes.finished);
        if finished.is_empty() {
            return Err(match self.merged.skipped.into_iter().next() {
                Some(first) => first.error.with_hint("none of the inputs could be merged; this is the first error"),
                None => merge.error("there is nothing to merge"),
            });
        }
        merge.check_stopped()?;
        if merge.request.verifies {
            finished.iter_mut().try_for_each(|volume| verify(volume, &mut || merge.check_stopped()))?;
        }
        for volume in &mut finished {
            self.merged.outputs.push(volume.file.output().path().to_owned());
            self.merged.add(&volume.merged);
        }
        let outputs_count = finished.len();
        if let Some(last) = finished.last_mut() {
            self.checkpoints.settle(outputs_count, last.file.output().written()?)?;
        }
        publish(finished)?;
        self.checkpoints.remove();
        Ok(self.merged)
    }
}
