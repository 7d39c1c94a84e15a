//! Gives the outputs of a merge their names.

use crate::error::Result;
use crate::write::merge::volume::Finished;
use crate::write::output::Output;

/// Gives all outputs their names, or none if one cannot have it. The first output gets its name last: whoever finds it
/// finds the others too. The temporary names are removed when all outputs have theirs, that of the first output first:
/// until then a merge that resumes takes the names back.
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
