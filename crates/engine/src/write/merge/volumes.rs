//! The outputs of a merge: either one, or several of limited size.

use crate::error::Result;
use crate::write::baskets::recompress::Recompressor;
use crate::write::journal::checkpoints::Checkpoints;
use crate::write::journal::records::Position;
use crate::write::merge::info_lists::InfoLists;
use crate::write::merge::input::Input;
use crate::write::merge::volume::{Finished, Volume};
use crate::write::output::leftovers::numbered;
use crate::write::output::Output;
use crate::write::request::MergeRequest;

/// The outputs of a merge.
pub(crate) struct Volumes<'a> {
    request: &'a MergeRequest,
    /// The process ID that is part of the outputs' temporary names.
    number: u32,
    /// Number of outputs that a killed merge left behind.
    outputs_before: usize,
    /// Streamer infos that are added to each output, in addition to those of its inputs.
    infos: InfoLists,
    pub(crate) recompressor: Option<Recompressor>,
    pub(crate) current: Option<Volume>,
    pub(crate) finished: Vec<Finished>,
}

impl<'a> Volumes<'a> {
    /// Creates the list of outputs, which is empty at first.
    pub(crate) fn new(request: &'a MergeRequest, checkpoints: &Checkpoints<'_>, infos: InfoLists) -> Self {
        Self {
            request,
            number: checkpoints.number,
            outputs_before: checkpoints.outputs_count,
            infos,
            recompressor: request.codec.map(Recompressor::new),
            current: None,
            finished: Vec::new(),
        }
    }

    /// Ensures that the current output has room for an input, by starting a new output if necessary.
    pub(crate) fn make_room(&mut self, input: &Input) -> Result<()> {
        let is_full = |volume: &Volume| {
            let size = volume.size_bytes().saturating_add(input.size_bytes());
            volume.files_count() > 0 && self.request.size_bytes_max.is_some_and(|most| size > most)
        };
        if let Some(volume) = self.current.as_mut().filter(|_| self.request.size_bytes_max.is_some()) {
            volume.settle()?;
        }
        if self.current.as_ref().is_some_and(is_full) {
            self.close()?;
        }
        if self.current.is_none() {
            let path = numbered(&self.request.output, self.finished.len());
            let is_there = self.finished.len() < self.outputs_before;
            let begin = if is_there { Output::resume } else { Output::create_as };
            let mut output = begin(self.number, &path, self.request.replace, &self.request.inputs)?;
            if self.request.skips_sync {
                output.skip_sync();
            }
            self.current = Some(Volume::begin(output, input, self.request, self.infos.clone())?);
        }
        Ok(())
    }

    /// The index of the current output, and the offset of its end.
    pub(crate) fn position(&mut self) -> Position {
        let end = self.current.as_mut().map_or(0, |volume| volume.output().end());
        Position { volume: self.finished.len() as u64, end }
    }

    /// Truncates the current file after the last byte of the output.
    pub(crate) fn cut(&mut self) -> Result<()> {
        self.current.as_mut().map_or(Ok(()), |volume| {
            let end = volume.output().end();
            volume.output().cut(end)
        })
    }

    /// Whether the current output has entries of an input that was only partly added.
    pub(crate) fn is_torn(&self) -> bool {
        self.current.as_ref().is_some_and(Volume::is_torn)
    }

    /// Finishes the current output.
    pub(crate) fn close(&mut self) -> Result<()> {
        if let Some(volume) = self.current.take().filter(|volume| volume.files_count() > 0) {
            self.finished.push(volume.finish()?);
        }
        Ok(())
    }
}
