//! The record of a tree (or any object of described classes) taken apart: what is copied as it is, and what depends
//! on where it lies - byte counts, class tags, references between objects - or may be replaced.

use std::ops::Range;
use std::rc::Rc;

use xxhash_rust::xxh3::Xxh3;

use crate::buffer::{ObjectBuffer, Pointer};
use crate::cursor::{Cursor, VersionHeader};
use crate::error::{ErrorKind, FormatError, Result};
use crate::streamer::ClassInfos;
use crate::tree::Basic;

use super::emit::Emitter;
use super::family::{is_container, OwnerKind};
use super::index::TreeIndex;
use super::infos::is_element;

/// Objects within objects deeper than this are taken for a loop.
const DEPTH_MAX: usize = 200;

/// A piece of an object's plain bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// Copied as they are.
    Bytes(Range<usize>),
    /// Copied as they are, and only to the same place: they may hold references.
    Fixed(Range<usize>),
    /// The byte count of a version header; what it counts ends at [`Token::End`].
    Begin,
    /// The byte count, if there is one, and the class tag of an object behind a pointer, up to [`Token::End`].
    Object {
        /// By what it is referred to in the bytes that were taken apart.
        id: u64,
        class_name: Rc<str>,
        is_counted: bool,
    },
    /// The end of the innermost object or version header.
    End,
    /// A pointer to an object that came before, which some writers count the bytes of.
    Seen { id: u64, is_counted: bool },
    /// The number of pointers and the lower bound of a TObjArray, whose pointers follow: of each the token behind it.
    Array { head: Range<usize>, ends: Vec<usize> },
    /// What may be replaced begins here: its number among [`Recording::kept`].
    Kept(usize),
}

/// An object whose members may be replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// What it is.
    pub kind: OwnerKind,
    /// Its class.
    pub class_name: Rc<str>,
    /// By what it is referred to in the bytes that were taken apart; 0 for the outermost object.
    pub id: u64,
}

/// How a member is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeptKind {
    /// A number.
    Number(Basic),
    /// A byte that says whether there are any, and so many numbers.
    Array(Basic),
    /// Offsets of baskets in an old TBranch: a byte that says of how many bytes they are, and so many numbers.
    Seeks(Basic),
    /// A TArray: a count and so many numbers.
    Counted(Basic),
    /// A std::vector: a header, a count and so many numbers.
    Vector(Basic),
    /// Something else, which is not replaced.
    Other,
    /// A TObjArray.
    Pointers,
    /// A pointer.
    Link,
}

/// A member that may be replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Whose it is: a number among [`Recording::owners`].
    pub owner: usize,
    /// Its name.
    pub name: &'static str,
    /// How it is stored.
    pub kind: KeptKind,
    /// Its value, if it is a number (what is in front of a fraction); of a pointer what it refers to.
    pub value: i64,
    /// Which of the tokens are its.
    pub(super) tokens: Range<usize>,
}

/// An object taken apart.
#[derive(Debug, Clone)]
pub struct Recording<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) key_size: u64,
    pub(super) tokens: Vec<Token>,
    /// Trees, branches and leaves in the order of the bytes.
    pub owners: Vec<Owner>,
    /// Members of these that may be replaced, in the order of the bytes.
    pub kept: Vec<Kept>,
    /// Members by the object that they are of.
    by_owner: Vec<usize>,
    /// Objects in lists that do not add up.
    others: Vec<Range<usize>>,
}

impl<'a> Recording<'a> {
    /// Takes the plain bytes of a TTree's record apart.
    ///
    /// Everything in it must be of a class that is described, or that ROOT always streams alike: what is not known
    /// might refer to objects that will lie elsewhere.
    pub fn of_tree(bytes: &'a [u8], key_size: u64, class_name: &str, infos: &ClassInfos) -> Result<Self> {
        let mut recorder = Recorder::new(bytes, key_size, infos);
        recorder.owned(OwnerKind::Tree, class_name.into(), 0)?;
        Ok(recorder.finish(key_size))
    }

    /// Takes the plain bytes of any object apart, in which what adds up may be replaced. What is not known in it is
    /// kept as it is, and can only be written to the same place behind a key of the same size.
    pub fn of_object(bytes: &'a [u8], key_size: u64, class_name: &str, infos: &ClassInfos) -> Result<Self> {
        let mut recorder = Recorder::new(bytes, key_size, infos);
        recorder.adds_up = true;
        recorder.any_object(&class_name.into(), 0)?;
        Ok(recorder.finish(key_size))
    }

    /// Whether something in it can only be written to the same place behind a key of the same size.
    pub fn is_fixed(&self) -> bool {
        self.tokens.iter().any(|token| matches!(token, Token::Fixed(_)))
    }

    /// A member of an object: its number among those that may be replaced.
    pub fn find(&self, owner: usize, name: &'static str) -> Option<(usize, &Kept)> {
        let first = self.by_owner.partition_point(|index| self.kept[*index].owner < owner);
        let of_owner = self.by_owner[first..].iter().take_while(|index| self.kept[**index].owner == owner);
        // The last one, as a class may have a member of the same name as its base.
        let index = *of_owner.filter(|index| self.kept[**index].name == name).last()?;
        Some((index, &self.kept[index]))
    }

    /// The value of a number, or what a pointer refers to; 0 where there is no such member.
    pub fn value(&self, owner: usize, name: &'static str) -> i64 {
        self.find(owner, name).map_or(0, |(_, kept)| kept.value)
    }

    /// The numbers of a variable array.
    pub fn values(&self, owner: usize, name: &'static str) -> Result<Vec<i64>> {
        let Some((_, kept @ Kept { kind: KeptKind::Array(basic), .. })) = self.find(owner, name) else {
            return Ok(Vec::new());
        };
        let mut cursor = Cursor::new(self.stored(kept));
        if cursor.remaining() == 0 || cursor.u8()? == 0 {
            return Ok(Vec::new());
        }
        let count = cursor.remaining() / basic.size();
        (0..count).map(|_| basic.read(&mut cursor)).collect()
    }

    /// The bytes of a member that has no references in it.
    pub(super) fn stored(&self, kept: &Kept) -> &'a [u8] {
        self.place(kept).map_or(&[], |range| &self.bytes[range])
    }

    /// Where the bytes of a member stand that has no references in it.
    pub(super) fn place(&self, kept: &Kept) -> Option<Range<usize>> {
        if let (KeptKind::Vector(_), Some([Token::Kept(_), Token::Begin, Token::Bytes(range), Token::End])) =
            (&kept.kind, self.tokens.get(kept.tokens.clone()))
        {
            return Some(range.clone());
        }
        match self.tokens.get(kept.tokens.end.wrapping_sub(1)) {
            Some(Token::Bytes(range)) if kept.tokens.len() == 2 => Some(range.clone()),
            _ => None,
        }
    }

    /// The index of a tree, if it has one of the usual kind.
    pub fn tree_index(&self) -> Result<Option<TreeIndex>> {
        let Some((_, kept)) = self.find(0, "fTreeIndex") else { return Ok(None) };
        match &self.tokens[kept.tokens.clone()] {
            [_, Token::Object { class_name, .. }, Token::Bytes(range), Token::End] if &**class_name == "TTreeIndex" => {
                // Behind its byte count.
                let bytes = self.bytes.get(range.start + BYTE_COUNT_BYTES..range.end).unwrap_or_default();
                TreeIndex::read(bytes).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// What tells the objects in lists that do not add up from others.
    pub(super) fn digest_of_others(&self) -> u64 {
        let mut digest = Xxh3::new();
        for token in self.others.iter().flat_map(|range| &self.tokens[range.clone()]) {
            match token {
                Token::Bytes(range) | Token::Fixed(range) | Token::Array { head: range, .. } => {
                    digest.update(&self.bytes[range.clone()]);
                }
                Token::Object { class_name, .. } => digest.update(class_name.as_bytes()),
                Token::Begin | Token::End | Token::Seen { .. } | Token::Kept(_) => digest.update(b"."),
            }
        }
        digest.digest()
    }

    /// The bytes of a member with all objects in it, as if they stood alone.
    pub(super) fn alone(&self, kept: &Kept) -> Result<Vec<u8>> {
        let mut emitter = Emitter::new(0);
        emitter.tokens(&self.tokens[kept.tokens.clone()], self.bytes)?;
        Ok(emitter.out)
    }
}

/// What objects that may add up are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    Elsewhere,
    /// A list, whose objects add up one by one.
    List,
    /// A THnBase, whose axes are objects of their own.
    Grid,
}

/// Bytes that are being taken apart.
pub(super) struct Recorder<'a, 'i> {
    pub(super) buffer: ObjectBuffer<'a>,
    pub(super) infos: &'i ClassInfos,
    pub(super) tokens: Vec<Token>,
    owners: Vec<Owner>,
    pub(super) kept: Vec<Kept>,
    /// The object whose members are read now.
    pub(super) owner: Option<usize>,
    /// Up to where there are tokens.
    copied: usize,
    depth: usize,
    /// Whether objects behind the pointers that are read now add up.
    adds_up: bool,
    /// What these are in.
    inside: Inside,
    others: Vec<Range<usize>>,
    /// What tells the streamer info that was read last from others.
    pub(super) identity: Option<Vec<u8>>,
    bytes: &'a [u8],
}

impl<'a, 'i> Recorder<'a, 'i> {
    pub(super) fn new(bytes: &'a [u8], key_size: u64, infos: &'i ClassInfos) -> Self {
        Self {
            buffer: ObjectBuffer::new(bytes, key_size),
            infos,
            tokens: Vec::new(),
            owners: Vec::new(),
            kept: Vec::new(),
            owner: None,
            copied: 0,
            depth: 0,
            adds_up: false,
            inside: Inside::Elsewhere,
            others: Vec::new(),
            identity: None,
            bytes,
        }
    }

    /// All that was read.
    fn finish(mut self, key_size: u64) -> Recording<'a> {
        self.copy_up_to(self.bytes.len());
        let Self { tokens, owners, kept, bytes, others, .. } = self;
        let mut by_owner: Vec<usize> = (0..kept.len()).collect();
        by_owner.sort_by_key(|index| kept[*index].owner);
        Recording { bytes, key_size, tokens, owners, kept, by_owner, others }
    }

    /// Where the reading is.
    pub(super) fn position(&self) -> usize {
        self.buffer.cursor.position()
    }

    /// Has the bytes up to a position copied.
    pub(super) fn copy_up_to(&mut self, position: usize) {
        if position > self.copied {
            self.tokens.push(Token::Bytes(self.copied..position));
            self.copied = position;
        }
    }

    /// Has what was read up to now not copied.
    pub(super) fn skip_copying(&mut self) {
        self.copied = self.position();
    }

    /// What was read since a position.
    pub(super) fn bytes_from(&self, start: usize) -> &'a [u8] {
        self.bytes.get(start..self.position()).unwrap_or_default()
    }

    /// Reads a version header.
    pub(super) fn begin(&mut self) -> Result<VersionHeader> {
        let start = self.position();
        self.copy_up_to(start);
        let header = self.buffer.cursor.version_header()?;
        if header.end.is_some() {
            self.tokens.push(Token::Begin);
            self.copied = start + BYTE_COUNT_BYTES;
        }
        Ok(header)
    }

    /// Ends what began with a version header. All its members were read; nothing else may be in it unless
    /// `has_more`.
    pub(super) fn end(&mut self, header: VersionHeader, has_more: bool) -> Result<()> {
        let Some(end) = header.end else { return Ok(()) };
        let position = self.position();
        if position != end && !has_more {
            let message = format!("its members end at {position}, the object at {end}");
            return Err(FormatError::damaged(position as u64, message));
        }
        self.buffer.cursor.skip_to(end)?;
        self.copy_up_to(end);
        self.tokens.push(Token::End);
        Ok(())
    }

    /// Runs a step deeper.
    pub(super) fn deeper<T>(&mut self, step: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= DEPTH_MAX {
            return Err(FormatError::damaged(self.position() as u64, "objects are nested in a loop"));
        }
        self.depth += 1;
        let result = step(self);
        self.depth -= 1;
        result
    }

    /// Reads a pointer and, if it is new, its object. Answers with what it refers to; 0 for nothing.
    pub(super) fn pointer(&mut self) -> Result<u64> {
        let start = self.position();
        self.copy_up_to(start);
        match self.buffer.pointer()? {
            // A byte count, if there was one, is copied with it.
            Pointer::Null => Ok(0),
            Pointer::Seen(id) => {
                self.copied = self.position();
                self.tokens.push(Token::Seen { id, is_counted: self.copied > start + BYTE_COUNT_BYTES });
                Ok(id)
            }
            Pointer::New { id, class_name, end } => {
                self.copied = self.position();
                let is_counted = end.is_some();
                self.tokens.push(Token::Object { id, class_name: Rc::clone(&class_name), is_counted });
                self.deeper(|recorder| recorder.pointed(&class_name, id, end))?;
                let position = self.position();
                if end.is_some_and(|end| end != position) {
                    let message = format!("an object of class {class_name} ends elsewhere than its byte count says");
                    return Err(FormatError::damaged(position as u64, message));
                }
                self.copy_up_to(position);
                self.tokens.push(Token::End);
                Ok(id)
            }
        }
    }

    fn pointed(&mut self, class_name: &Rc<str>, id: u64, end: Option<usize>) -> Result<()> {
        let kind = match &**class_name {
            "TStreamerInfo" => return self.streamer_info(),
            // They have no pointers.
            name if matches!(name, "TBasket" | "TTreeIndex") || is_element(name) => {
                let at = self.position() as u64;
                let end = end.ok_or_else(|| FormatError::damaged(at, format!("a {class_name} without its length")))?;
                return self.buffer.cursor.skip_to(end);
            }
            name if name.starts_with("TBranch") => OwnerKind::Branch,
            name if name.starts_with("TLeaf") => OwnerKind::Leaf,
            _ => return self.known_or_fixed(class_name, id, end),
        };
        self.owned(kind, Rc::clone(class_name), id)
    }

    /// Reads an object behind a pointer, or keeps it where it is if its class is not known.
    fn known_or_fixed(&mut self, class_name: &Rc<str>, id: u64, end: Option<usize>) -> Result<()> {
        let before = (self.position(), self.tokens.len(), self.owners.len(), self.kept.len(), self.copied);
        let others_before = self.others.len();
        match (self.any_object(class_name, id), end) {
            (Err(error), Some(end)) if error.kind == ErrorKind::Unsupported => {
                let start = before.0;
                self.tokens.truncate(before.1);
                self.owners.truncate(before.2);
                self.kept.truncate(before.3);
                self.copied = before.4;
                self.others.truncate(others_before);
                self.copy_up_to(start);
                if self.position() > end {
                    return Err(error);
                }
                self.keep_in_place(end)?;
                if (self.adds_up, self.inside) == (true, Inside::List) {
                    self.others.push(before.1.saturating_sub(1)..self.tokens.len());
                }
                Ok(())
            }
            (result, _) => result,
        }
    }

    /// Keeps what was not copied yet where it is, up to a position that is not read yet.
    pub(super) fn keep_in_place(&mut self, end: usize) -> Result<()> {
        self.buffer.cursor.skip_to(end)?;
        self.tokens.push(Token::Fixed(self.copied..end));
        self.copied = end;
        Ok(())
    }

    /// Reads an object of any class.
    fn any_object(&mut self, class_name: &Rc<str>, id: u64) -> Result<()> {
        let before = (self.adds_up, self.inside);
        let kind = match before {
            (false, _) => None,
            (true, Inside::Grid) => (&**class_name == "TAxis").then_some(OwnerKind::Axis),
            (true, _) => OwnerKind::of_sum(class_name, self.infos),
        };
        let first = self.tokens.len();
        let result = match kind {
            Some(kind) => {
                self.adds_up = kind.is_open();
                self.inside = if kind == OwnerKind::Grid { Inside::Grid } else { Inside::Elsewhere };
                self.owned(kind, Rc::clone(class_name), id)
            }
            None => {
                self.adds_up = before.0 && before.1 != Inside::Grid && is_container(class_name);
                self.inside = if self.adds_up { Inside::List } else { Inside::Elsewhere };
                let is_other = before == (true, Inside::List) && !self.adds_up;
                let result = self.unowned(class_name);
                if is_other {
                    self.copy_up_to(self.position());
                    self.others.push(first.saturating_sub(1)..self.tokens.len());
                }
                result
            }
        };
        (self.adds_up, self.inside) = before;
        result
    }

    /// Reads an object whose members are not replaced.
    pub(super) fn unowned(&mut self, class_name: &str) -> Result<()> {
        let before = self.owner.take();
        let result = self.object(class_name);
        self.owner = before;
        result
    }

    /// The numbers of a THn.
    pub(super) fn cells(&mut self, class_name: &str) -> Result<()> {
        self.owned(OwnerKind::Cells, class_name.into(), 0)
    }

    /// Of an axis of a histogram, which is a member of it.
    pub(super) fn axis(&mut self) -> Result<()> {
        self.owned(OwnerKind::Axis, "TAxis".into(), 0)
    }

    /// The kind of the object whose members are read now.
    pub(super) fn kind(&self) -> Option<OwnerKind> {
        self.owner.map(|owner| self.owners[owner].kind)
    }

    /// Reads an object whose members may be replaced.
    fn owned(&mut self, kind: OwnerKind, class_name: Rc<str>, id: u64) -> Result<()> {
        let owner = self.owners.len();
        self.owners.push(Owner { kind, class_name: Rc::clone(&class_name), id });
        let before = self.owner.replace(owner);
        let result = self.object(&class_name);
        self.owner = before;
        result
    }

    /// Notes a member that may be replaced, which `read` reads.
    pub(super) fn keep(
        &mut self,
        (owner, name, kind): (usize, &'static str, KeptKind),
        read: impl FnOnce(&mut Self) -> Result<i64>,
    ) -> Result<i64> {
        self.copy_up_to(self.position());
        let number = self.kept.len();
        let first = self.tokens.len();
        self.tokens.push(Token::Kept(number));
        self.kept.push(Kept { owner, name, kind, value: 0, tokens: first..first });
        let value = read(self)?;
        self.copy_up_to(self.position());
        let kept = &mut self.kept[number];
        kept.value = value;
        kept.tokens.end = self.tokens.len();
        Ok(value)
    }
}

/// Bytes of a byte count, and of a reference.
const BYTE_COUNT_BYTES: usize = 4;
