//! Reads many texts, or many lists of numbers, that lie behind each other: step by step it takes several times as long.

use crate::cursor::Cursor;
use crate::error::Result;
use crate::objects::model::steps::{Block, Collection, Move, Step, TextLength};

use super::block::append;
use super::machine::Machine;

impl Step {
    /// The collection and its numbers, if it is one whose elements are numbers or fixed arrays of numbers.
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
    /// Reads `count` texts to a slot.
    pub(super) fn texts(&mut self, slot: usize, length: TextLength, count: usize) -> Result<()> {
        let slot = &mut self.slots[slot];
        for _ in 0..count {
            slot.bytes.extend_from_slice(self.cursor.text(length)?);
            slot.offsets.push(slot.bytes.len() as i64);
        }
        Ok(())
    }

    /// Reads `count` lists of numbers, each behind its length.
    pub(super) fn number_lists(&mut self, list: usize, slot: usize, numbers: &Move, count: usize) -> Result<()> {
        let mut offsets = std::mem::take(&mut self.slots[list].offsets);
        let mut bytes = std::mem::take(&mut self.slots[slot].bytes);
        let read = read_lists(&mut self.cursor, numbers, count, &mut offsets, &mut bytes);
        self.slots[list].offsets = offsets;
        self.slots[slot].bytes = bytes;
        read
    }
}

fn read_lists(
    cursor: &mut Cursor<'_>,
    numbers: &Move,
    count: usize,
    offsets: &mut Vec<i64>,
    bytes: &mut Vec<u8>,
) -> Result<()> {
    let element_size = numbers.scalar.stored_size().saturating_mul(numbers.count);
    let mut end = offsets.last().copied().unwrap_or(0);
    for _ in 0..count {
        let elements = i64::from(cursor.i32()?);
        let elements = cursor.checked_count(elements, 1)?;
        append(numbers.scalar, cursor.take(elements.saturating_mul(element_size))?, bytes);
        end += elements as i64;
        offsets.push(end);
    }
    Ok(())
}
