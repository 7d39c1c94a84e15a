//! Decoding of a branch's entries with objects, basket by basket.

use std::ops::Range;
use std::sync::Arc;

use crate::basket::Plain;
use crate::column::Column;
use crate::error::{FormatError, Result};
use crate::layout::program::{Parts, Program};
use crate::layout::steps::{Block, Step};
use crate::layout::Layout;

use super::columns::Columns;
use super::enumerations::{not_stored, Attempts};
use super::expansion::ROUND_BYTES;
use super::machine::{Machine, REST};
use super::many::HeadedLists;
use super::slot::{add_slots, Mark, Slot};

/// Maximum number of unreadable classes in a decoded object. Objects of these classes are skipped.
const LEFT_OUT_MAX: usize = 16;
/// Maximum number of times that reading restarts because the objects of a class turn out to have no headers.
const STARTS_OVER_MAX: usize = 16;
/// Maximum number of times that steps are fused again while a basket is read, because a header differs from its assumed
/// kind.
const FUSED_AGAIN_MAX: usize = 4;

impl Program {
    /// Create a column without entries.
    pub fn empty(&self) -> Column {
        let mut slots = Vec::new();
        add_slots(&mut slots, &self.parts().class.has_offsets);
        let column = Columns::new(slots, &self.parts().classes).column(&self.parts().class.form, 0, 0);
        column.unwrap_or_else(|_| Column::Record { class_name: None, count: 0, members: Vec::new() })
    }

    /// Decode a single object from a record whose key has `key_size` bytes.
    ///
    /// With classes created by `Classes::whole`, unreadable objects that pointers refer to are skipped. The record of a
    /// skipped object has a string member `@unread` with the reason, instead of the object's members.
    pub fn decode_object(&self, bytes: &[u8], key_size: u64) -> Result<Column> {
        let mut left_out: Vec<(String, FormatError)> = Vec::new();
        let mut rounds = 0;
        let mut attempts = Attempts::default();
        loop {
            let mut reader = Reader::over(self, bytes, key_size, self.new_slots(bytes.len()));
            reader.machine.may_start_over = rounds < STARTS_OVER_MAX;
            reader.machine.unsure_arrays = attempts.arrays;
            left_out.iter().for_each(|(name, error)| reader.machine.leave_out(name, error.clone()));
            let Err(error) = reader.bounded_entry(0..bytes.len()) else {
                attempts.accept(&reader.machine)?;
                return Columns::new(reader.machine.slots, &self.parts().classes).column(
                    &self.parts().class.form,
                    0,
                    1,
                );
            };
            let machine = &mut reader.machine;
            if machine.starts_over {
                rounds += 1;
                continue;
            }
            let may_go_on = self.parts().classes.are_whole && left_out.len() < LEFT_OUT_MAX;
            match machine.failed.take().filter(|class| may_go_on && left_out.iter().all(|(name, _)| name != class)) {
                Some(class_name) => left_out.push((class_name, error)),
                // Later pointers may refer to a class whose name was in the skipped object. In that case, the reason
                // for skipping the object is also the cause of this error.
                None => match machine.stepped_over.take() {
                    Some(why) => return Err(because(&why, &error)),
                    None => attempts.next(machine, error)?,
                },
            }
        }
    }

    /// Read entries with `walk` and return the filled slots. At first, assumes that the objects of every class have
    /// headers. If the objects of a class turn out to have none, all entries are read again without headers for that
    /// class.
    fn filled<'p>(
        &'p self,
        data: &'p [u8],
        key_size: u64,
        walk: impl Fn(&mut Reader<'p>) -> Result<()>,
    ) -> Result<Vec<Slot>> {
        self.walked(data, key_size, self.new_slots(data.len()), walk).map(|machine| machine.slots)
    }

    /// Like `filled`, but append to existing `slots`.
    fn walked<'p>(
        &'p self,
        data: &'p [u8],
        key_size: u64,
        mut slots: Vec<Slot>,
        walk: impl Fn(&mut Reader<'p>) -> Result<()>,
    ) -> Result<Machine<'p>> {
        let mut round = 0;
        let mut attempts = Attempts::default();
        loop {
            let mut reader = Reader::over(self, data, key_size, slots);
            reader.machine.may_start_over = round < STARTS_OVER_MAX;
            reader.machine.unsure_arrays = attempts.arrays;
            match walk(&mut reader) {
                Ok(()) => return attempts.accept(&reader.machine).map(|()| reader.machine),
                Err(_) if reader.machine.starts_over => round += 1,
                Err(error) => attempts.next(&reader.machine, error)?,
            }
            reader.go_back();
            slots = reader.machine.slots;
        }
    }

    /// Create empty slots, with memory reserved for approximately `data_bytes` bytes of entries.
    fn new_slots(&self, data_bytes: usize) -> Vec<Slot> {
        let (mut slots, class) = (Vec::new(), &self.parts().class);
        add_slots(&mut slots, &class.has_offsets);
        class.make_room(&mut slots, data_bytes);
        slots
    }

    /// Decode objects that were each streamed to a separate buffer, as in streamer fields of an RNTuple. `offsets` has
    /// the start of each object in `bytes`, followed by the end of the last object. An object without bytes, as in
    /// entries before a field was added, gets default values.
    pub fn decode_streamed(&self, bytes: &[u8], offsets: &[i64]) -> Result<Column> {
        let slots = self.filled(bytes, 0, |reader| {
            if let Some(block) = reader.as_blocks(offsets) {
                reader.blocks(&block, bytes);
                return Ok(());
            }
            for (index, pair) in offsets.windows(2).enumerate() {
                // References are relative to the start of the object's own buffer.
                reader.data = bytes.get(pair[0] as usize..pair[1] as usize).unwrap_or_default();
                let read = match reader.data.len() {
                    0 => reader.machine.defaults(&self.parts().class.form, 0, 1),
                    size => reader.bounded_entry(0..size),
                };
                read.map_err(|error| named(error, index))?;
            }
            Ok(())
        })?;
        let count = offsets.len().saturating_sub(1);
        Columns::new(slots, &self.parts().classes).column(&self.parts().class.form, 0, count)
    }

    /// Sorted positions of the references in a basket's data. `bounds` has the start of each entry, followed by the end
    /// of the last entry.
    pub fn references(&self, plain: &Plain<'_>, bounds: &[u32]) -> Result<Vec<u32>> {
        let entries = 0..bounds.len().saturating_sub(1);
        let slots = self.new_slots(plain.data.len());
        let mut places = self.walked(plain.data, plain.key_size, slots, |reader| {
            reader.machine.entry.references = Some(Vec::new());
            reader.bounded_entries(bounds, entries.clone())
        })?;
        let mut places = places.entry.references.take().unwrap_or_default();
        // An object is read once for each of its pointers, so positions may occur several times.
        places.sort_unstable();
        places.dedup();
        Ok(places)
    }

    /// Start of each entry of a basket without entry offsets, followed by the end of the last entry. `counts` has the
    /// number of elements per entry, if a counter branch stores them.
    pub(crate) fn bounds(&self, plain: &Plain<'_>, counts: Option<&[i64]>) -> Result<Vec<u32>> {
        let bounds = std::cell::RefCell::new(Vec::new());
        self.walked(plain.data, plain.key_size, self.new_slots(plain.data.len()), |reader| {
            bounds.borrow_mut().clear();
            let all = 0..plain.entries_count;
            if let Some(data) = reader.even_entries(plain, &all)? {
                let size = data.len().checked_div(plain.entries_count).unwrap_or(0);
                bounds.borrow_mut().extend(all.map(|entry| (entry * size) as u32));
                return Ok(());
            }
            let begins = |_: &mut Reader<'_>, _, start| bounds.borrow_mut().push(start as u32);
            reader.each_unbounded(plain, all, counts, begins)
        })?;
        let mut bounds = bounds.into_inner();
        bounds.push(plain.data.len() as u32);
        Ok(bounds)
    }

    /// Decode entries of a basket. `counts` has the number of elements per entry, if a counter branch stores them.
    pub fn decode(&self, plain: &Plain<'_>, entries: Range<usize>, counts: Option<&[i64]>) -> Result<Column> {
        let mut open = self.begin(plain.data.len());
        open.add(plain, entries, counts)?;
        open.finish()
    }

    /// Start a column for the entries of several baskets, with memory reserved for approximately `data_bytes` bytes of
    /// entries.
    pub fn begin(&self, data_bytes: usize) -> OpenColumn<'_> {
        OpenColumn { program: self, slots: self.new_slots(data_bytes), entries_count: 0 }
    }
}

/// A column over the entries of consecutive baskets of a branch. Small baskets share a column, because creating a
/// column takes as long as decoding a few hundred values.
#[derive(Debug)]
pub struct OpenColumn<'p> {
    program: &'p Program,
    slots: Vec<Slot>,
    entries_count: usize,
}

impl OpenColumn<'_> {
    /// Decode entries of a basket, like [`Program::decode`], and append them. After an error, discard the column.
    pub fn add(&mut self, plain: &Plain<'_>, entries: Range<usize>, counts: Option<&[i64]>) -> Result<()> {
        let (bounds, slots) = (plain.bounds()?, std::mem::take(&mut self.slots));
        if let (Some(name), Some(counts), true) = (self.program.unsure_array(), counts, plain.data.is_empty())
            && counts.get(entries.clone()).is_some_and(|counts| counts.iter().any(|count| *count > 0))
        {
            return Err(not_stored(name));
        }
        let machine = self.program.walked(plain.data, plain.key_size, slots, |reader| match &bounds {
            Some(bounds) => reader.bounded_entries(bounds, entries.clone()),
            None => reader.unbounded_entries(plain, entries.clone(), counts),
        })?;
        self.slots = machine.slots;
        self.entries_count += entries.len();
        Ok(())
    }

    /// Convert the decoded entries to a column.
    pub fn finish(self) -> Result<Column> {
        let Parts { class, classes, .. } = self.program.parts();
        class.remember(&self.slots);
        Columns::new(self.slots, classes).column(&class.form, 0, self.entries_count)
    }
}

impl Layout {
    /// Sorted positions of the references in a basket's data. `bounds` has the start of each entry, followed by the end
    /// of the last entry.
    pub(crate) fn references(&self, plain: &Plain<'_>, bounds: &[u32]) -> Result<Vec<u32>> {
        match self {
            Self::Objects(program) if program.may_refer() => program.references(plain, bounds),
            Self::Fixed { .. } | Self::Run { .. } | Self::Arrays { .. } | Self::Objects(_) => Ok(Vec::new()),
        }
    }
}

fn because(why: &str, error: &FormatError) -> FormatError {
    FormatError::unsupported(format!("{why} {error}"))
}

fn named(error: FormatError, entry: usize) -> FormatError {
    error.in_object(format!("entry {entry}"))
}

/// A walk over the entries of one basket.
struct Reader<'a> {
    machine: Machine<'a>,
    parts: &'a Parts,
    steps: Arc<Vec<Step>>,
    data: &'a [u8],
    fused_again: usize,
    /// Recorded sizes of the slots at the start of the walk.
    marks: Vec<Mark>,
}

impl<'a> Reader<'a> {
    fn over(program: &'a Program, data: &'a [u8], key_size: u64, slots: Vec<Slot>) -> Self {
        let parts = program.parts();
        let marks = slots.iter().map(Slot::mark).collect();
        let mut machine = Machine::new(data, key_size, &parts.classes);
        machine.slots = slots;
        Self { machine, parts, steps: parts.class.steps(), data, fused_again: 0, marks }
    }

    /// Remove everything that this walk has added to the slots.
    fn go_back(&mut self) {
        self.machine.slots.truncate(self.marks.len());
        self.machine.slots.iter_mut().zip(&self.marks).for_each(|(slot, mark)| slot.go_back(mark));
    }

    /// The block that reads one entry. None unless every entry in `bounds` has the size of the block and satisfies its
    /// guards.
    fn as_blocks<T: Copy + Into<i64>>(&self, bounds: &[T]) -> Option<Block> {
        let [Step::Block(block)] = self.steps.as_slice() else { return None };
        let (first, last) = ((*bounds.first()?).into() as usize, (*bounds.last()?).into() as usize);
        let count = bounds.len() - 1;
        let is_even = self.parts.elements.is_none()
            && block.size > 0
            && last - first == block.size.checked_mul(count)?
            && bounds.windows(2).all(|pair| (pair[1].into() - pair[0].into()) as usize == block.size)
            && block.agrees(self.data.get(first..last)?, count);
        is_even.then(|| block.clone())
    }

    /// Read consecutive entries that all match `block`.
    fn blocks(&mut self, block: &Block, data: &[u8]) {
        if let Some(count) = data.len().checked_div(block.size).filter(|count| *count > 0) {
            block.take(data, count, &mut self.machine.slots);
        }
    }

    /// Read entries whose offsets are stored in the basket.
    fn bounded_entries(&mut self, bounds: &[u32], entries: Range<usize>) -> Result<()> {
        let bounds = &bounds[entries.start..=entries.end];
        if let Some(block) = self.as_blocks(bounds) {
            self.blocks(&block, &self.data[bounds[0] as usize..bounds[entries.len()] as usize]);
            return Ok(());
        }
        let mut read = self.lists_of_entries(bounds);
        while let Some(pair @ [_, _]) = bounds.get(read..read + 2) {
            let range = pair[0] as usize..pair[1] as usize;
            self.bounded_entry(range).map_err(|error| named(error, entries.start + read))?;
            read += 1;
        }
        Ok(())
    }

    /// Read entries that are lists of lists of numbers, up to the first entry with a different encoding. Returns the
    /// number of entries read.
    fn lists_of_entries(&mut self, bounds: &[u32]) -> usize {
        let steps = Arc::clone(&self.steps);
        let lists = HeadedLists::of(&steps).filter(|_| self.parts.elements.is_none());
        lists.map_or(0, |lists| self.machine.lists_of_entries(&lists, self.data, bounds))
    }

    fn bounded_entry(&mut self, range: Range<usize>) -> Result<()> {
        self.machine.begin_entry(&self.data[..range.end], range.start);
        let is_empty = range.is_empty();
        match (self.parts.elements, self.steps.as_slice()) {
            // An empty collection is written without a header.
            (Some(list), _) if is_empty => self.machine.push_list(list, 0),
            (Some(_), _) => self.entry(REST)?,
            // An empty string may be written without its length.
            (None, [Step::Text { slot, .. }]) if is_empty => self.machine.push_list(*slot, 0),
            (None, _) => self.entry(1)?,
        }
        match self.machine.cursor.remaining() {
            0 => Ok(()),
            left => Err(self.machine.damaged(format!("{left} bytes are left after the entry"))),
        }
    }

    fn entry(&mut self, count: usize) -> Result<()> {
        if self.machine.has_learned && self.fused_again < FUSED_AGAIN_MAX {
            self.fused_again += 1;
            self.machine.has_learned = false;
            self.machine.fuse_known_again();
            self.parts.class.fuse_again();
            self.steps = self.parts.class.steps();
        }
        let steps = Arc::clone(&self.steps);
        match (self.parts.elements, steps.as_slice()) {
            (Some(list), [step]) => {
                let done = self.machine.step(step, 0, count)?;
                self.machine.push_list(list, done);
                Ok(())
            }
            (Some(_), _) => Err(FormatError::internal("a member of a collection has several steps")),
            (None, steps) => self.machine.run(steps, 0, 1),
        }
    }

    /// The bytes of a range of entries. None unless the program reads every entry as a block of the same size.
    fn even_entries<'p>(&self, plain: &Plain<'p>, entries: &Range<usize>) -> Result<Option<&'p [u8]>> {
        match self.steps.as_slice() {
            _ if self.parts.elements.is_some() => Ok(None),
            [] => plain.fixed_range(0, entries.clone()).map(Some),
            [Step::Block(block)] if block.guards.is_empty() => plain.fixed_range(block.size, entries.clone()).map(Some),
            [Step::Block(block)] => {
                let data = plain.fixed_range(block.size, entries.clone()).ok();
                Ok(data.filter(|_| block.agrees(plain.data, plain.entries_count)))
            }
            _ => Ok(None),
        }
    }

    /// Read entries without offsets: each entry starts where the previous entry ends.
    fn unbounded_entries(&mut self, plain: &Plain<'_>, entries: Range<usize>, counts: Option<&[i64]>) -> Result<()> {
        if let Some(data) = self.even_entries(plain, &entries)? {
            if let [Step::Block(block)] = Arc::clone(&self.steps).as_slice() {
                self.blocks(block, data);
            }
            return Ok(());
        }
        if entries.is_empty() {
            return Ok(());
        }
        let first = entries.start;
        self.each_unbounded(plain, entries, counts, |reader, next, _| {
            if next == first {
                reader.go_back();
            }
        })
    }

    /// Read entries one by one, starting with the basket's first entry. Before each entry, calls `visit` with the index
    /// and the start of the entry.
    fn each_unbounded(
        &mut self,
        plain: &Plain<'_>,
        entries: Range<usize>,
        counts: Option<&[i64]>,
        mut visit: impl FnMut(&mut Self, usize, usize),
    ) -> Result<()> {
        let mut position = 0;
        for index in 0..entries.end {
            visit(self, index, position);
            let count = match (self.parts.elements, counts) {
                (None, _) => 1,
                (Some(_), Some(counts)) if counts.len() == plain.entries_count => {
                    let rest = self.data.len() - position;
                    usize::try_from(counts[index]).ok().filter(|count| *count <= rest).ok_or_else(no_bounds)?
                }
                _ => return Err(no_bounds()),
            };
            self.machine.begin_entry(self.data, position);
            match self.parts.elements {
                Some(list) if count == 0 => self.machine.push_list(list, 0),
                _ => self.entry(count).map_err(|error| named(error, index))?,
            }
            if self.machine.cursor.position() == position && count > 0 {
                self.machine.count_expansion(ROUND_BYTES)?;
            }
            position = self.machine.cursor.position();
        }
        if entries.end == plain.entries_count && position != self.data.len() {
            let left = self.data.len() - position;
            return Err(FormatError::damaged(position as u64, format!("{left} bytes are left after the last entry")));
        }
        Ok(())
    }
}

fn no_bounds() -> FormatError {
    FormatError::damaged(0, "the basket has no entry offsets")
}
