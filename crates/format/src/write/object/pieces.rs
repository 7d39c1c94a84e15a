//! The record of a tree in pieces, with which other records are compared: the same bytes in all, and numbers, arrays,
//! byte counts and references that may differ.

use std::ops::Range;

use crate::classes::class_info::Element;
use crate::classes::streamer::ClassInfos;
use crate::cursor::Cursor;
use crate::marks::{BYTE_COUNT_MASK, CLASS_MASK, MAP_OFFSET, NEW_CLASS_TAG};
use crate::numbers::number::Number;

use super::recording::Recording;
use super::token::{MemberStorage, RecordedMember, Token};

/// Numbers that may differ and that count nothing in a record.
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
/// The number that counts the entries of [`ARRAYS`].
const COUNTER: &str = "fMaxBaskets";
const ARRAYS: [&str; 3] = ["fBasketBytes", "fBasketEntry", "fBasketSeek"];
/// Pointers to baskets that are in memory when the tree is written: none of a tree that is whole.
const BASKETS: &str = "fBaskets";
/// Bytes of a byte count, of a reference, and of a pointer to nothing.
const WORD: usize = 4;
/// Bytes of a TObjArray in front of its pointers, and where in them their number stands.
const ARRAY_HEAD: usize = 25;
const ARRAY_COUNT: Range<usize> = 17..21;

/// A member: the number of its object among the owners, and its name.
type Member = (usize, &'static str);

/// A record in pieces.
#[derive(Debug)]
pub(crate) struct Pieces {
    bytes: Vec<u8>,
    key_size: u64,
    pieces: Vec<Piece>,
    /// Which members are numbers that may differ, sorted, with their places in [`Found::numbers`].
    numbers: Vec<(Member, usize)>,
    /// Which members are arrays that may differ, sorted, with their places in [`Found::arrays`].
    arrays: Vec<(Member, (usize, Number))>,
    numbers_count: usize,
}

#[derive(Debug)]
enum Piece {
    /// Bytes that are the same in all records.
    Same(Range<usize>),
    /// A byte count.
    Open,
    /// The end of what a byte count counts.
    Close,
    /// An object without a byte count.
    OpenUncounted,
    /// A reference to the bytes at position `to`, with a mask that is set in it.
    Reference { to: usize, mask: u32 },
    /// A number that may differ between records.
    Number(Range<usize>, Number),
    /// As many numbers as another number says.
    Array { at: Range<usize>, number: Number, counter: usize },
    /// An array of pointers to nothing.
    Nulls(Range<usize>),
}

/// The numbers and arrays of another record.
#[derive(Debug, Default)]
pub(crate) struct Found<'b> {
    pub(crate) numbers: Vec<i64>,
    pub(crate) arrays: Vec<&'b [u8]>,
}

impl Pieces {
    /// Cuts a record into pieces; None if something in it could not be compared.
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

    /// The index of a member among the numbers; the last one, as a class may have a member of the same name as its
    /// base.
    pub(crate) fn number(&self, owner: usize, name: &str) -> Option<usize> {
        last_of(&self.numbers, owner, name)
    }

    /// The index of a member among the arrays.
    pub(crate) fn array(&self, owner: usize, name: &str) -> Option<(usize, Number)> {
        last_of(&self.arrays, owner, name)
    }

    /// The numbers and arrays of another record, behind a key of `key_size` bytes; None if anything else differs.
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

/// Cuts a record.
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

    /// A member that may be a piece by itself.
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
            // The byte in front, which may say of how many bytes they are, is the same in all.
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
            // Anything else is the same in all records.
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

    /// A TObjArray without anything, whatever its length.
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
        // Smaller numbers refer to nothing that lies elsewhere in another record.
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

/// Whether a TObjArray, with its byte count, holds pointers to nothing only.
fn is_nothing(array: &[u8]) -> Option<bool> {
    let (head, pointers) = array.split_at_checked(ARRAY_HEAD)?;
    let counted = u32::try_from(array.len() - WORD).ok()?;
    let is_counted = word(head, 0)? == BYTE_COUNT_MASK | counted;
    Some(is_counted && pointers.iter().all(|byte| *byte == 0))
}

fn word(bytes: &[u8], position: usize) -> Option<u32> {
    bytes.get(position..position.checked_add(WORD)?)?.try_into().ok().map(u32::from_be_bytes)
}

/// Compares a record with another.
struct Comparison<'p, 'b> {
    pieces: &'p Pieces,
    bytes: &'b [u8],
    /// In the other one.
    position: usize,
    /// The positions of the byte counts of open objects; None for objects without one.
    open: Vec<Option<usize>>,
    /// Positions in the first record, and how far behind each of them the same thing lies in the other record.
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
                // Version, TObject and name in front of the number of pointers, and the lower bound behind it.
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

    /// Records that what follows this position of the first record lies at the current position of the other.
    fn note(&mut self, at: usize) -> Option<()> {
        let by = isize::try_from(self.position).ok()? - isize::try_from(at).ok()?;
        if self.moves.last().is_none_or(|(_, before)| *before != by) {
            self.moves.push((at, by));
        }
        Some(())
    }

    /// The position in the other record of something in the first one.
    fn moved(&self, to: usize) -> Option<usize> {
        let behind = self.moves.partition_point(|(at, _)| *at <= to);
        let (_, by) = self.moves.get(behind.checked_sub(1)?)?;
        to.checked_add_signed(*by)
    }
}
