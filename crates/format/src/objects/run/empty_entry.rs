//! The bytes of an empty entry: zero numbers, empty strings and empty containers.

use crate::layout::steps::{Step, TextLength};
use crate::layout::{Layout, RunHeader};
use crate::marks::{byte_count, CONTAINER_VERSION};
use crate::numbers::scalar::Scalar;

/// Maximum size of an empty entry in bytes.
const SIZE_MAX: usize = 1 << 20;

/// The bytes of an empty entry with this layout. If a counter branch stores the number of elements, the entry has 0
/// elements. None for layouts with objects of classes, whose empty form is unknown.
pub fn empty_entry(layout: &Layout) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    match layout {
        Layout::Fixed { scalar, dimensions } => push_zeros(&mut out, stored_size(*scalar, dimensions)?)?,
        Layout::Run { header: RunHeader::None, .. } | Layout::Arrays { .. } => {}
        Layout::Run { header: RunHeader::Pointer, .. } => out.push(0),
        Layout::Run { header: RunHeader::Count, .. } => out.extend([0; 4]),
        Layout::Run { header: RunHeader::Container { .. }, .. } => push_headed(&mut out, |out| push_zeros(out, 4))?,
        Layout::Objects(program) => {
            // If an entry is a list, `single_steps` returns None: a list without elements has no bytes.
            push_all(&mut out, program.single_steps().unwrap_or_default())?;
        }
    }
    Some(out)
}

fn stored_size(scalar: Scalar, dimensions: &[usize]) -> Option<usize> {
    dimensions.iter().try_fold(scalar.stored_size(), |size, extent| size.checked_mul(*extent))
}

fn push_zeros(out: &mut Vec<u8>, count: usize) -> Option<()> {
    let size = out.len().checked_add(count).filter(|size| *size <= SIZE_MAX)?;
    out.resize(size, 0);
    Some(())
}

/// Append a byte count, a version, and the bytes that `push` appends.
fn push_headed(out: &mut Vec<u8>, push: impl FnOnce(&mut Vec<u8>) -> Option<()>) -> Option<()> {
    let start = out.len();
    out.extend([0; 4]);
    out.extend(CONTAINER_VERSION.to_be_bytes());
    push(out)?;
    let count = byte_count(out.len() - start - 4)?;
    out[start..start + 4].copy_from_slice(&count.to_be_bytes());
    Some(())
}

fn push_all(out: &mut Vec<u8>, steps: &[Step]) -> Option<()> {
    steps.iter().try_for_each(|step| push(out, step))
}

fn push(out: &mut Vec<u8>, step: &Step) -> Option<()> {
    match step {
        Step::Block(block) if block.guards.is_empty() => push_zeros(out, block.size),
        Step::Text { length: TextLength::Short, .. } => push_zeros(out, 1),
        Step::Text { length: TextLength::Long, .. } | Step::Collection(_) => push_zeros(out, 4),
        Step::Repeat { count, steps } => (0..*count).try_for_each(|_| {
            let before = out.len();
            push_all(out, steps)?;
            // Steps that append no bytes could be repeated any number of times.
            (out.len() > before).then_some(())
        }),
        Step::Headed { count, steps } => {
            push_headed(out, |out| (0..(*count).min(SIZE_MAX)).try_for_each(|_| push_all(out, steps)))
        }
        // The counter of an empty array is 0, so only the flag bytes are stored.
        Step::Counted(counted) => push_zeros(out, if counted.has_flag { counted.arrays } else { 0 }),
        Step::TObject
        | Step::Identity { .. }
        | Step::Bits { .. }
        | Step::TRef { .. }
        | Step::Object(_)
        | Step::Loop(_)
        | Step::Pointer { .. }
        | Step::NamedObject { .. }
        | Step::Pointers(_)
        | Step::Clones { .. }
        | Step::Convert(_)
        | Step::Default(_)
        | Step::Nested { .. }
        | Step::Block(_)
        | Step::Undescribed { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::number::Number;

    #[test]
    fn nothing_of_numbers_is_zeros_and_nothing_of_containers_is_empty() {
        let fixed = |dimensions: &[usize]| Layout::Fixed {
            scalar: Scalar::Plain(Number::F64),
            dimensions: dimensions.to_vec(),
        };
        assert_eq!(empty_entry(&fixed(&[])), Some(vec![0; 8]));
        assert_eq!(empty_entry(&fixed(&[2, 3])), Some(vec![0; 48]));
        assert_eq!(empty_entry(&fixed(&[usize::MAX, 2])), None);
        assert_eq!(empty_entry(&fixed(&[1 << 30])), None);
        let run =
            |header| Layout::Run { scalar: Scalar::Plain(Number::F32), dimensions: Vec::new(), header, count: None };
        assert_eq!(empty_entry(&run(RunHeader::None)), Some(Vec::new()));
        assert_eq!(empty_entry(&run(RunHeader::Pointer)), Some(vec![0]));
        assert_eq!(empty_entry(&run(RunHeader::Count)), Some(vec![0; 4]));
        assert_eq!(
            empty_entry(&run(RunHeader::Container { is_set: false })),
            Some(vec![0x40, 0, 0, 6, 0, 9, 0, 0, 0, 0])
        );
    }
}
