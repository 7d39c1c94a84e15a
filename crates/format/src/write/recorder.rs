//! The record of a tree (or any object of described classes) taken apart: what is copied as it is, and what depends
//! on where it lies - byte counts, class tags, references between objects - or may be replaced.

use std::ops::Range;
use std::rc::Rc;

use crate::buffer::{ObjectBuffer, Pointer};
use crate::cursor::VersionHeader;
use crate::error::{ErrorKind, FormatError, Result};
use crate::streamer::ClassInfos;

use super::family::{is_container, OwnerKind};
use super::recording::Recording;
use super::token::{Kept, KeptKind, Owner, Token, BYTE_COUNT_BYTES};

/// Objects within objects deeper than this are taken for a loop.
const DEPTH_MAX: usize = 200;

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
}

/// Where an object that may add up stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    Elsewhere,
    /// A list, whose objects add up one by one.
    List,
    /// A THnBase, whose axes are objects of their own.
    Grid,
}

/// Takes the bytes of an object apart.
pub(super) struct Recorder<'a, 'i> {
    pub(super) buffer: ObjectBuffer<'a>,
    pub(super) infos: &'i ClassInfos,
    pub(super) tokens: Vec<Token>,
    owners: Vec<Owner>,
    pub(super) kept: Vec<Kept>,
    /// The object whose members are read now.
    pub(super) owner: Option<usize>,
    /// The end of the bytes that have tokens.
    copied: usize,
    depth: usize,
    /// Whether objects behind the pointers that are read now add up.
    adds_up: bool,
    /// Where these stand.
    inside: Inside,
    others: Vec<Range<usize>>,
    /// Name, version and checksum of the streamer info that was read last, as bytes.
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

    /// Adds a token that copies the bytes up to a position.
    pub(super) fn copy_up_to(&mut self, position: usize) {
        if position > self.copied {
            self.tokens.push(Token::Bytes(self.copied..position));
            self.copied = position;
        }
    }

    /// Leaves out the bytes that were read since the last token.
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

    /// Reads a pointer and, if it is new, its object. Returns what it refers to; 0 for nothing.
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

    /// Records a member that may be replaced, which `read` reads.
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

/// Whether a class is that of an element of a streamer info, which has no pointers.
fn is_element(class_name: &str) -> bool {
    class_name.starts_with("TStreamer") && class_name != "TStreamerInfo"
}
