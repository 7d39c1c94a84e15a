//! Publishes the outputs of a merge.

use crate::error::Result;
use crate::write::merge::volume::Finished;
use crate::write::output::Output;

/// Renames all outputs to their final names, or none of them if one cannot be renamed.
///
/// The first output is renamed last, so that its existence implies that all other outputs exist. The temporary names
/// are kept until all outputs have their final names, so that a resumed merge can undo the renaming. They are then
/// removed, starting with the first output.
pub(crate) fn publish(finished: Vec<Finished>) -> Result<()> {
    let mut outputs: Vec<Output> = finished.into_iter().map(|volume| volume.file.into_output()).collect();
    for number in (0..outputs.len()).rev() {
        if let Err(error) = outputs[number].take_name() {
            outputs.drain(..).skip(number + 1).for_each(Output::withdraw);
            return Err(error);
        }
    }
    outputs.iter_mut().try_for_each(Output::settle_name)
}
