//! Fast paths for many consecutive strings or lists of numbers, several times faster than single steps.

use crate::cursor::Cursor;
use crate::error::Result;
use crate::layout::steps::{Block, Collection, Move, Step, TextLength};
use crate::marks::MEMBERWISE_MASK;

use super::block::append;
use super::machine::Machine;

impl Step {
    /// The collection that this step reads, and the [`Move`] that copies its numbers. None unless the step reads a
    /// collection of numbers or of fixed-size arrays of numbers.
    pub(super) fn number_lists(&self) -> Option<(&Collection, &Move)> {
        let Self::Collection(inner) = self else { return None };
        let [Self::Block(Block { size, moves, guards, fallback })] = inner.steps.as_slice() else { return None };
        match moves.as_slice() {
            [one] if guards.is_empty() && fallback.is_empty() && one.offset == 0 => {
                let stored_size = one.scalar.stored_size().saturating_mul(one.count);
                (stored_size == *size && stored_size > 0).then_some((inner, one))
            }
            _ => None,
        }
    }
}

impl Cursor<'_> {
    fn text(&mut self, length: TextLength) -> Result<&[u8]> {
        match length {
            TextLength::Short => self.string_bytes(),
            TextLength::Long => {
                let size = i64::from(self.i32()?);
                let size = self.checked_count(size, 1)?;
                self.take(size)
            }
        }
    }
}

impl Machine<'_> {
    /// Read `count` strings and append them to a slot.
    pub(super) fn texts(&mut self, slot: usize, length: TextLength, count: usize) -> Result<()> {
        let slot = &mut self.slots[slot];
        for _ in 0..count {
            slot.bytes.extend_from_slice(self.cursor.text(length)?);
            slot.offsets.push(slot.bytes.len() as i64);
        }
        Ok(())
    }

    /// Read `count` lists of numbers, each preceded by its length.
    pub(super) fn number_lists(&mut self, list: usize, slot: usize, numbers: &Move, count: usize) -> Result<()> {
        self.stored.clear();
        let read = read_lists(&mut self.cursor, numbers, count, &mut self.slots[list].offsets, &mut self.stored);
        append(numbers.scalar, &self.stored, &mut self.slots[slot].bytes);
        read
    }

    /// Read entries up to the first entry with an unusual encoding, which must be read step by step. Returns the number
    /// of entries read. `bounds` has the start of each entry in `data`, followed by the end of the last entry.
    pub(super) fn lists_of_entries(&mut self, lists: &HeadedLists<'_>, data: &[u8], bounds: &[u32]) -> usize {
        let HeadedLists { list, inner, numbers } = *lists;
        let mut outer_offsets = std::mem::take(&mut self.slots[list].offsets);
        let mut offsets = std::mem::take(&mut self.slots[inner].offsets);
        self.stored.clear();
        let mut done = 0;
        for pair in bounds.windows(2) {
            let before = (outer_offsets.len(), offsets.len(), self.stored.len());
            let mut cursor = Cursor::at(&data[..pair[1] as usize], pair[0] as usize);
            if read_entry(&mut cursor, numbers, &mut outer_offsets, &mut offsets, &mut self.stored).is_none() {
                outer_offsets.truncate(before.0);
                offsets.truncate(before.1);
                self.stored.truncate(before.2);
                break;
            }
            done += 1;
        }
        self.slots[list].offsets = outer_offsets;
        self.slots[inner].offsets = offsets;
        append(numbers.scalar, &self.stored, &mut self.slots[numbers.slot].bytes);
        done
    }
}

/// Steps that read one header and a list of lists of numbers, for example for a branch of vector<vector<float>>.
pub(super) struct HeadedLists<'s> {
    list: usize,
    inner: usize,
    numbers: &'s Move,
}

impl<'s> HeadedLists<'s> {
    pub(super) fn of(steps: &'s [Step]) -> Option<Self> {
        let [Step::Headed { count: 1, steps }] = steps else { return None };
        let [Step::Collection(outer)] = steps.as_slice() else { return None };
        let [inner] = outer.steps.as_slice() else { return None };
        let (inner, numbers) = inner.number_lists()?;
        Some(Self { list: outer.list, inner: inner.list, numbers })
    }
}

/// Read a list of lists of numbers up to the end of the entry; None if the encoding is unusual.
fn read_entry(
    cursor: &mut Cursor<'_>,
    numbers: &Move,
    outer_offsets: &mut Vec<i64>,
    offsets: &mut Vec<i64>,
    stored: &mut Vec<u8>,
) -> Option<()> {
    let header = cursor.version_header().ok().filter(|header| header.version & MEMBERWISE_MASK == 0)?;
    let count = i64::from(cursor.i32().ok()?);
    let lists = cursor.checked_count(count, 1).ok()?;
    outer_offsets.push(outer_offsets.last().copied().unwrap_or(0) + count);
    read_lists(cursor, numbers, lists, offsets, stored).ok()?;
    (header.end.is_none_or(|end| end == cursor.position()) && cursor.remaining() == 0).then_some(())
}

/// Read the lengths of lists, and copy their numbers without decoding.
fn read_lists(
    cursor: &mut Cursor<'_>,
    numbers: &Move,
    count: usize,
    offsets: &mut Vec<i64>,
    stored: &mut Vec<u8>,
) -> Result<()> {
    let element_size = numbers.scalar.stored_size().saturating_mul(numbers.count);
    let mut end = offsets.last().copied().unwrap_or(0);
    for _ in 0..count {
        let elements = i64::from(cursor.i32()?);
        let elements = cursor.checked_count(elements, 1)?;
        add_bytes(cursor, elements.saturating_mul(element_size), stored)?;
        end += elements as i64;
        offsets.push(end);
    }
    Ok(())
}

/// Size up to which a list is copied with a fixed number of bytes, including bytes after the list. The fixed size
/// avoids a branch on the length, which the processor could mispredict.
const COPIED_BYTES: usize = 32;

#[inline]
fn add_bytes(cursor: &mut Cursor<'_>, size: usize, out: &mut Vec<u8>) -> Result<()> {
    match cursor.rest().first_chunk::<COPIED_BYTES>() {
        Some(more) if size <= COPIED_BYTES => {
            let end = out.len() + size;
            out.extend_from_slice(more);
            out.truncate(end);
            cursor.skip(size)
        }
        _ => {
            out.extend_from_slice(cursor.take(size)?);
            Ok(())
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::layout::program::Classes;
    use crate::numbers::number::Number;
    use crate::objects::run::slot::{add_slots, Slot};

    fn collection(list: usize, steps: Vec<Step>) -> Vec<Step> {
        vec![Step::Collection(Box::new(Collection { list, steps, memberwise: None }))]
    }

    /// Steps that read a vector<vector<float>>.
    fn steps() -> Vec<Step> {
        let numbers = vec![Step::Block(Block::numbers(Number::F32, 1, 2))];
        vec![Step::Headed { count: 1, steps: collection(0, collection(1, numbers)) }]
    }

    /// Encode an entry like ROOT: a byte count if `has_end` is set, a version, and lists of the given lengths.
    fn entry(has_end: bool, lists: &[usize]) -> Vec<u8> {
        let mut content = 9_i16.to_be_bytes().to_vec();
        content.extend((lists.len() as u32).to_be_bytes());
        for count in lists {
            content.extend((*count as u32).to_be_bytes());
            (0..*count).for_each(|number| content.extend((number as f32 + 0.5).to_be_bytes()));
        }
        let size = (content.len() as u32 | 0x4000_0000).to_be_bytes();
        [if has_end { &size[..] } else { &[] }, &content].concat()
    }

    fn contents(slots: &[Slot]) -> Vec<(Vec<u8>, Vec<i64>)> {
        slots.iter().map(|slot| (slot.bytes.clone(), slot.offsets.clone())).collect()
    }

    /// Check that the fast path reads `expected` entries and fills the slots like reading step by step.
    fn compare(entries: &[Vec<u8>], expected: usize) {
        let (data, steps) = (entries.concat(), steps());
        let mut bounds = vec![0_u32];
        entries.iter().for_each(|entry| bounds.push(bounds[bounds.len() - 1] + entry.len() as u32));
        let classes = Classes::new(Arc::default());
        let machine = || {
            let mut machine = Machine::new(&data, 0, &classes);
            add_slots(&mut machine.slots, &[true, true, false]);
            machine
        };
        let mut quick = machine();
        let done = quick.lists_of_entries(&HeadedLists::of(&steps).unwrap(), &data, &bounds);
        assert_eq!(done, expected);
        let mut slow = machine();
        for pair in bounds[..=done].windows(2) {
            slow.begin_entry(&data[..pair[1] as usize], pair[0] as usize);
            slow.run(&steps, 0, 1).unwrap();
        }
        assert_eq!(contents(&quick.slots), contents(&slow.slots));
    }

    #[test]
    fn lists_of_all_lengths_are_as_read_step_by_step() {
        let lengths: Vec<usize> = (0..70).collect();
        let entries: Vec<Vec<u8>> = (0..70).map(|last| entry(last % 3 > 0, &lengths[..last])).collect();
        compare(&entries, 70);
    }

    #[test]
    fn an_entry_that_is_not_as_usual_is_left_to_the_steps() {
        let (usual, long) = (entry(true, &[2, 0, 30]), [entry(true, &[1]), vec![0]].concat());
        let (mut short, mut memberwise, mut cut) = (usual.clone(), usual.clone(), entry(false, &[7]));
        short[3] -= 1;
        memberwise[4] |= 0x40;
        cut.truncate(12);
        for odd in [long, short, memberwise, cut, vec![], entry(false, &[])[..2].to_vec()] {
            compare(&[usual.clone(), usual.clone(), odd, usual.clone()], 2);
        }
    }
}
