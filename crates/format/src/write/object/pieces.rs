//! The record of a tree, split into pieces to compare it with other records. Pieces are constant bytes, or numbers,
//! arrays, byte counts and references that may differ.

use std::ops::Range;

use crate::classes::class_info::Element;
use crate::classes::streamer::ClassInfos;
use crate::cursor::Cursor;
use crate::marks::{BYTE_COUNT_MASK, CLASS_MASK, MAP_OFFSET, NEW_CLASS_TAG};
use crate::numbers::number::Number;

use super::recording::Recording;
use super::token::{MemberStorage, RecordedMember, Token};

/// Number members that may differ between records and are not array lengths.
const FREE: [&str; 12] = [
    "fEntries",
    "fTotBytes",
    "fZipBytes",
    "fSavedBytes",
    "fFlushedBytes",
    "fAutoFlush",
    "fWriteBasket",
    "fEntryNumber",
    "fFirstEntry",
    "fMaximum",
    "fBasketSize",
    "fEntryOffsetLen",
];
/// Member with the length of the arrays in [`ARRAYS`].
const COUNTER: &str = "fMaxBaskets";
/// Array members that may differ between records.
const ARRAYS: [&str; 3] = ["fBasketBytes", "fBasketEntry", "fBasketSeek"];
/// Member with the pointers to embedded baskets, which are all null in a completely written tree.
const BASKETS: &str = "fBaskets";
/// Size in bytes of a byte count, a reference or a null pointer.
const WORD: usize = 4;
/// Size of the part of a TObjArray before its pointers.
const ARRAY_HEAD: usize = 25;
/// Position of the length field within the bytes of a TObjArray.
const ARRAY_COUNT: Range<usize> = 17..21;

/// Identifier of a member: the index of its object among the owners, and the member's name.
type Member = (usize, &'static str);

/// A record split into pieces.
#[derive(Debug)]
pub(crate) struct Pieces {
    bytes: Vec<u8>,
    key_size: u64,
    pieces: Vec<Piece>,
    /// Number members that may differ, each with its index in [`Found::numbers`]. Sorted by member.
    numbers: Vec<(Member, usize)>,
    /// Array members that may differ, each with its index in [`Found::arrays`] and its number type. Sorted by member.
    arrays: Vec<(Member, (usize, Number))>,
    numbers_count: usize,
}

#[derive(Debug)]
enum Piece {
    /// Constant bytes.
    Same(Range<usize>),
    /// A byte count.
    Open,
    /// The end of the bytes that the innermost open byte count covers.
    Close,
    /// The start of an object without a byte count.
    OpenUncounted,
    /// A reference to the object or class at position `to`, combined with `mask`.
    Reference { to: usize, mask: u32 },
    /// A number that may differ between records.
    Number(Range<usize>, Number),
    /// An array whose length is the number with the index `counter`.
    Array { at: Range<usize>, number: Number, counter: usize },
    /// An array of null pointers.
    Nulls(Range<usize>),
}

/// The numbers and arrays found in another record.
#[derive(Debug, Default)]
pub(crate) struct Found<'b> {
    pub(crate) numbers: Vec<i64>,
    pub(crate) arrays: Vec<&'b [u8]>,
}

impl Pieces {
    /// Split a record into pieces; None if the record contains something that cannot be compared.
    pub(crate) fn of(recording: &Recording<'_>, infos: &ClassInfos) -> Option<Self> {
        let counts_as_known = |array: &Element| {
            let counter = array.count_name.as_str();
            !FREE.contains(&counter) && (counter == COUNTER) == ARRAYS.contains(&array.name.as_str())
        };
        if !infos.counted_arrays().all(counts_as_known) {
            return None;
        }
        let mut cutter = Cutter { recording, position: 0, token: 0, made: Self::nothing(recording) };
        while let Some(token) = recording.tokens.get(cutter.token) {
            cutter.cut(token)?;
        }
        let mut made = cutter.made;
        made.numbers.sort_by_key(|(place, _)| *place);
        made.arrays.sort_by_key(|(place, _)| *place);
        (cutter.position == recording.bytes.len()).then_some(made)
    }

    fn nothing(recording: &Recording<'_>) -> Self {
        Self {
            bytes: recording.bytes.to_vec(),
            key_size: recording.key_size,
            pieces: Vec::new(),
            numbers: Vec::new(),
            arrays: Vec::new(),
            numbers_count: 0,
        }
    }

    /// The index of a member among the numbers. A class may have a member of the same name as its base class; the last
    /// member of that name is used.
    pub(crate) fn number(&self, owner: usize, name: &str) -> Option<usize> {
        last_of(&self.numbers, owner, name)
    }

    /// The index of a member among the arrays, and its number type.
    pub(crate) fn array(&self, owner: usize, name: &str) -> Option<(usize, Number)> {
        last_of(&self.arrays, owner, name)
    }

    /// The numbers and arrays of another record, whose key has `key_size` bytes. None if the records differ in anything
    /// else.
    pub(crate) fn compare<'b>(&self, bytes: &'b [u8], key_size: u64) -> Option<Found<'b>> {
        if key_size != self.key_size {
            return None;
        }
        let mut comparison = Comparison { pieces: self, bytes, position: 0, open: Vec::new(), moves: vec![(0, 0)] };
        let mut found = Found { numbers: Vec::with_capacity(self.numbers_count), arrays: Vec::new() };
        found.arrays.reserve(self.arrays.len());
        self.pieces.iter().try_for_each(|piece| comparison.pass(piece, &mut found))?;
        (comparison.position == bytes.len() && comparison.open.is_empty()).then_some(found)
    }
}

fn last_of<T: Copy>(sorted: &[(Member, T)], owner: usize, name: &str) -> Option<T> {
    let behind = sorted.partition_point(|(place, _)| *place <= (owner, name));
    let (place, found) = sorted.get(behind.checked_sub(1)?)?;
    (*place == (owner, name)).then_some(*found)
}

/// State while splitting a record.
struct Cutter<'r, 'a> {
    recording: &'r Recording<'a>,
    position: usize,
    token: usize,
    made: Pieces,
}

impl Cutter<'_, '_> {
    fn cut(&mut self, token: &Token) -> Option<()> {
        self.token += 1;
        match token {
            Token::Member(number) => return self.cut_member(*number),
            Token::Bytes(range) | Token::Array { head: range, .. } if range.start == self.position => {
                self.same(range.len());
            }
            Token::Bytes(_) | Token::Array { .. } => return None,
            Token::Fixed(_) => return None,
            Token::Begin => self.open(true),
            Token::Object { class_name, is_counted, .. } => {
                self.open(*is_counted);
                match self.word(self.position)? {
                    NEW_CLASS_TAG => self.same(WORD + class_name.len() + 1),
                    tag => self.reference(tag & !CLASS_MASK, tag & CLASS_MASK)?,
                }
            }
            Token::End => self.made.pieces.push(Piece::Close),
            Token::Seen { is_counted, .. } => {
                self.same(if *is_counted { WORD } else { 0 });
                let id = self.word(self.position)?;
                self.reference(id, 0)?;
            }
        }
        (self.position <= self.recording.bytes.len()).then_some(())
    }

    /// Split off a member that may differ between records.
    fn cut_member(&mut self, number: usize) -> Option<()> {
        let member = self.recording.members.get(number)?;
        if member.name == BASKETS {
            return self.cut_baskets(member);
        }
        let Some(place) = self.recording.place(member).filter(|place| place.start == self.position) else {
            return Some(());
        };
        match member.kind {
            MemberStorage::Number(number) if FREE.contains(&member.name) || member.name == COUNTER => {
                self.made.numbers.push(((member.owner, member.name), self.made.numbers_count));
                self.made.numbers_count += 1;
                self.made.pieces.push(Piece::Number(place.clone(), number));
            }
            // The flag byte may select the width of the numbers, so it must be the same in all records.
            MemberStorage::Array(number) | MemberStorage::Seeks(number)
                if ARRAYS.contains(&member.name) && place.len() > 1 =>
            {
                let is_counter = |(place, _): &&(Member, usize)| *place == (member.owner, COUNTER);
                let (_, counter) = *self.made.numbers.iter().rev().find(is_counter)?;
                let at = place.start + 1..place.end;
                let count = self.made.arrays.len();
                self.made.arrays.push(((member.owner, member.name), (count, number)));
                self.same(1);
                self.made.pieces.push(Piece::Array { at, number, counter });
            }
            // All other members must be the same in all records.
            MemberStorage::Number(_)
            | MemberStorage::Array(_)
            | MemberStorage::Seeks(_)
            | MemberStorage::Counted(_)
            | MemberStorage::Vector(_)
            | MemberStorage::Other
            | MemberStorage::Pointers
            | MemberStorage::Link => return Some(()),
        }
        (self.position, self.token) = (place.end, member.tokens.end);
        Some(())
    }

    /// Split off a TObjArray of null pointers, whose length may differ.
    fn cut_baskets(&mut self, member: &RecordedMember) -> Option<()> {
        let bytes = &self.recording.bytes;
        let count = u32::from_be_bytes(bytes.get(self.position..)?.get(ARRAY_COUNT)?.try_into().ok()?);
        let at = self.position..self.position + ARRAY_HEAD + WORD * count as usize;
        let is_empty = member.kind == MemberStorage::Pointers && is_nothing(bytes.get(at.clone())?)?;
        (self.position, self.token) = (at.end, member.tokens.end);
        self.made.pieces.push(Piece::Nulls(at));
        is_empty.then_some(())
    }

    fn same(&mut self, count: usize) {
        let range = self.position..self.position + count;
        self.position = range.end;
        match self.made.pieces.last_mut() {
            Some(Piece::Same(before)) if before.end == range.start => before.end = range.end,
            _ if count > 0 => self.made.pieces.push(Piece::Same(range)),
            _ => {}
        }
    }

    fn open(&mut self, is_counted: bool) {
        if !is_counted {
            self.made.pieces.push(Piece::OpenUncounted);
            return;
        }
        self.made.pieces.push(Piece::Open);
        self.position += WORD;
    }

    fn reference(&mut self, id: u32, mask: u32) -> Option<()> {
        let before = self.recording.key_size + MAP_OFFSET;
        // References below `before` do not refer to a position.
        let Some(to) = u64::from(id).checked_sub(before) else {
            self.same(WORD);
            return Some(());
        };
        let (at, to) = (self.position, usize::try_from(to).ok()?);
        self.made.pieces.push(Piece::Reference { to, mask });
        self.position += WORD;
        (to < at).then_some(())
    }

    fn word(&self, position: usize) -> Option<u32> {
        word(self.recording.bytes, position)
    }
}

/// Whether a TObjArray has a byte count and contains only null pointers.
fn is_nothing(array: &[u8]) -> Option<bool> {
    let (head, pointers) = array.split_at_checked(ARRAY_HEAD)?;
    let counted = u32::try_from(array.len() - WORD).ok()?;
    let is_counted = word(head, 0)? == BYTE_COUNT_MASK | counted;
    Some(is_counted && pointers.iter().all(|byte| *byte == 0))
}

fn word(bytes: &[u8], position: usize) -> Option<u32> {
    bytes.get(position..position.checked_add(WORD)?)?.try_into().ok().map(u32::from_be_bytes)
}

/// State while comparing a record with the pieces of a first record.
struct Comparison<'p, 'b> {
    pieces: &'p Pieces,
    bytes: &'b [u8],
    /// Current position in the compared record.
    position: usize,
    /// Positions of the byte counts of all open objects; None for an object without a byte count.
    open: Vec<Option<usize>>,
    /// Pairs of a position in the first record and a shift: from this position on, positions in the compared record
    /// differ by the shift.
    moves: Vec<(usize, isize)>,
}

impl<'b> Comparison<'_, 'b> {
    fn pass(&mut self, piece: &Piece, found: &mut Found<'b>) -> Option<()> {
        let first = &self.pieces.bytes;
        match piece {
            Piece::Same(range) => {
                let (one, two) = (first.get(range.clone())?, self.take(range.len())?);
                (one == two).then_some(())?;
            }
            Piece::Open => {
                self.open.push(Some(self.position));
                self.take(WORD)?;
            }
            Piece::OpenUncounted => self.open.push(None),
            Piece::Close => {
                if let Some(start) = self.open.pop()? {
                    let counted = u32::try_from(self.position - start - WORD).ok()?;
                    (word(self.bytes, start)? == BYTE_COUNT_MASK | counted).then_some(())?;
                }
            }
            Piece::Reference { to, mask } => {
                let moved = self.moved(*to)? as u64 + self.pieces.key_size + MAP_OFFSET;
                let expected = u32::try_from(moved).ok()? | mask;
                (word(self.take(WORD)?, 0)? == expected).then_some(())?;
            }
            Piece::Number(range, number) => {
                let stored = self.take(range.len())?;
                found.numbers.push(number.read(&mut Cursor::new(stored)).ok()?);
            }
            Piece::Array { at, number, counter } => {
                let count = usize::try_from(*found.numbers.get(*counter)?).ok()?;
                let stored = self.take(count.checked_mul(number.size())?)?;
                found.arrays.push(stored);
                self.note(at.end)?;
            }
            Piece::Nulls(at) => {
                let rest = self.bytes.get(self.position..)?;
                let count = u32::from_be_bytes(rest.get(ARRAY_COUNT)?.try_into().ok()?) as usize;
                let array = self.take(count.checked_mul(WORD)?.checked_add(ARRAY_HEAD)?)?;
                // Compare the version, TObject and name before the length, and the lower bound after the length.
                let is_like = |range: Range<usize>| first[at.clone()].get(range.clone()) == array.get(range);
                let is_same = is_like(WORD..ARRAY_COUNT.start) && is_like(ARRAY_COUNT.end..ARRAY_HEAD);
                (is_same && is_nothing(array)?).then_some(())?;
                self.note(at.end)?;
            }
        }
        Some(())
    }

    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let taken = self.bytes.get(self.position..self.position.checked_add(count)?)?;
        self.position += count;
        Some(taken)
    }

    /// Record that position `at` of the first record corresponds to the current position in the compared record.
    fn note(&mut self, at: usize) -> Option<()> {
        let by = isize::try_from(self.position).ok()? - isize::try_from(at).ok()?;
        if self.moves.last().is_none_or(|(_, before)| *before != by) {
            self.moves.push((at, by));
        }
        Some(())
    }

    /// The position in the compared record that corresponds to the position `to` in the first record.
    fn moved(&self, to: usize) -> Option<usize> {
        let behind = self.moves.partition_point(|(at, _)| *at <= to);
        let (_, by) = self.moves.get(behind.checked_sub(1)?)?;
        to.checked_add_signed(*by)
    }
}
