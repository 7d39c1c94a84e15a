//! The record of a tree (or any object of described classes) taken apart: what is copied as it is, and what depends
//! on where it lies - byte counts, class tags, references between objects - or may be replaced.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::classes::class_info::Element;
use crate::classes::streamer::ClassInfos;
use crate::error::{ErrorKind, Result};
use crate::numbers::member_kind::MemberKind;
use crate::walker::{ClassId, Programs, Value, Visitor, Walker};

use super::family::{is_container, OwnerKind};
use super::record_members::{has_only_numbers, member_storage};
use super::recording::Recording;
use super::token::{MemberStorage, Owner, RecordedMember, Token, BYTE_COUNT_BYTES};

impl<'a> Recording<'a> {
    /// Takes the plain bytes of a TTree's record apart.
    ///
    /// Everything in it must be of a class that is described, or that ROOT always streams alike: what is not known
    /// might refer to objects that will lie elsewhere.
    pub fn of_tree(bytes: &'a [u8], key_size: u64, class_name: &str, infos: &ClassInfos) -> Result<Self> {
        let mut walker = Walker::new(bytes, key_size, infos, Recorder::new(bytes));
        let class = walker.class(class_name);
        walker.owned(OwnerKind::Tree, class, 0)?;
        Ok(walker.visitor.finish(key_size))
    }

    /// Takes the plain bytes of any object apart, in which what adds up may be replaced. What is not known in it is
    /// kept as it is, and can only be written to the same place behind a key of the same size.
    pub fn of_object(bytes: &'a [u8], key_size: u64, class_name: &str, programs: &mut ObjectPrograms) -> Result<Self> {
        let known = programs.programs.take().unwrap_or_else(Walker::<Recorder<'_>>::no_programs);
        let mut walker = Walker::with_programs(bytes, key_size, (&programs.infos, known), Recorder::new(bytes));
        walker.visitor.adds_up = true;
        // Objects of a file are mostly alike.
        walker.visitor.tokens.reserve(programs.tokens_count.min(bytes.len()));
        walker.visitor.members.reserve(programs.members_count.min(bytes.len()));
        walker.visitor.kinds = std::mem::take(&mut programs.kinds);
        let class = walker.class(class_name);
        let walked = walker.any_object(class, 0);
        let (mut recorder, known) = walker.finish();
        programs.programs = Some(known);
        programs.kinds = std::mem::take(&mut recorder.kinds);
        (programs.tokens_count, programs.members_count) = (recorder.tokens.len() + 1, recorder.members.len());
        walked.map(|()| recorder.finish(key_size))
    }
}

/// The compiled descriptions of classes, for all objects of files that describe them alike.
#[derive(Debug)]
pub struct ObjectPrograms {
    infos: Arc<ClassInfos>,
    programs: Option<Programs<Option<OwnerKind>, (&'static str, MemberStorage)>>,
    kinds: SumKinds,
    /// Of the last object.
    tokens_count: usize,
    members_count: usize,
}

/// The kinds of classes whose objects add up, each found once: what a class inherits from is looked up in the infos.
#[derive(Debug, Default)]
struct SumKinds(HashMap<String, Option<OwnerKind>>);

impl SumKinds {
    fn of(&mut self, class_name: &str, infos: &ClassInfos) -> Option<OwnerKind> {
        if let Some(known) = self.0.get(class_name) {
            return *known;
        }
        let kind = OwnerKind::of_sum(class_name, infos);
        self.0.insert(class_name.to_string(), kind);
        kind
    }
}

impl ObjectPrograms {
    /// Nothing compiled yet.
    pub fn new(infos: &Arc<ClassInfos>) -> Self {
        let (infos, kinds) = (Arc::clone(infos), SumKinds::default());
        Self { infos, programs: None, kinds, tokens_count: 0, members_count: 0 }
    }

    /// Whether objects of this class of several files become one.
    pub fn adds_up(&mut self, class_name: &str) -> bool {
        is_container(class_name) || self.kinds.of(class_name, &self.infos).is_some()
    }

    /// The descriptions.
    pub fn infos(&self) -> &Arc<ClassInfos> {
        &self.infos
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
    /// A TH2Poly, whose bins are objects of their own.
    PolygonHistogram,
}

impl Inside {
    /// Behind the pointers of an object that adds up.
    fn of(kind: OwnerKind) -> Self {
        match kind {
            OwnerKind::Grid => Self::Grid,
            OwnerKind::PolygonHistogram => Self::PolygonHistogram,
            OwnerKind::Histogram | OwnerKind::Cells | OwnerKind::Polygon | OwnerKind::Axis => Self::Elsewhere,
            OwnerKind::Graph | OwnerKind::Parameter | OwnerKind::Efficiency => Self::Elsewhere,
            OwnerKind::Tree | OwnerKind::Branch | OwnerKind::Leaf => Self::Elsewhere,
        }
    }
}

/// Records the pieces of an object.
pub(crate) struct Recorder<'a> {
    pub(crate) tokens: Vec<Token>,
    owners: Vec<Owner>,
    members: Vec<RecordedMember>,
    /// The object whose members come next, if these may be replaced.
    owner: Option<usize>,
    /// The end of the bytes that have tokens.
    copied: usize,
    /// Whether objects behind the pointers that come next add up.
    adds_up: bool,
    /// Where these stand.
    inside: Inside,
    others: Vec<Range<usize>>,
    kinds: SumKinds,
    /// Name, version and checksum of the last streamer info, as bytes.
    pub(crate) identity: Option<Vec<u8>>,
    bytes: &'a [u8],
}

impl<'a> Recorder<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self {
            tokens: Vec::new(),
            owners: Vec::new(),
            members: Vec::new(),
            owner: None,
            copied: 0,
            adds_up: false,
            inside: Inside::Elsewhere,
            others: Vec::new(),
            kinds: SumKinds::default(),
            identity: None,
            bytes,
        }
    }

    /// All that was recorded.
    fn finish(mut self, key_size: u64) -> Recording<'a> {
        self.copy_up_to(self.bytes.len());
        let Self { tokens, owners, members, bytes, others, .. } = self;
        Recording { bytes, key_size, tokens, owners, members, by_owner: OnceLock::new(), others }
    }

    /// Adds a token that copies the bytes up to a position.
    pub(crate) fn copy_up_to(&mut self, position: usize) {
        if position > self.copied {
            self.tokens.push(Token::Bytes(self.copied..position));
            self.copied = position;
        }
    }

    /// Adds a token for bytes that depend on where the object is written.
    fn replace(&mut self, at: Range<usize>, token: Token) {
        self.copy_up_to(at.start);
        self.copied = at.end;
        self.tokens.push(token);
    }

    /// Leaves out the bytes between the last token and a position.
    pub(crate) fn skip_copying(&mut self, position: usize) {
        self.copied = position;
    }

    /// The bytes of a range.
    pub(crate) fn bytes(&self, range: Range<usize>) -> &'a [u8] {
        self.bytes.get(range).unwrap_or_default()
    }

    /// The kind of the object whose members come next.
    fn kind(&self) -> Option<OwnerKind> {
        self.owner.map(|owner| self.owners[owner].kind)
    }

    /// How much was recorded.
    fn mark(&self) -> Mark {
        Mark {
            tokens: self.tokens.len(),
            owners: self.owners.len(),
            members: self.members.len(),
            others: self.others.len(),
            copied: self.copied,
        }
    }

    /// Forgets what was recorded since.
    fn go_back_to(&mut self, mark: &Mark) {
        self.tokens.truncate(mark.tokens);
        self.owners.truncate(mark.owners);
        self.members.truncate(mark.members);
        self.others.truncate(mark.others);
        self.copied = mark.copied;
    }
}

/// How much was recorded at some time.
struct Mark {
    tokens: usize,
    owners: usize,
    members: usize,
    others: usize,
    copied: usize,
}

impl<'a> Visitor<'a> for Recorder<'a> {
    /// The kind of an object whose members may be replaced.
    type Role = Option<OwnerKind>;
    /// Its name, and how it is stored.
    type Member = (&'static str, MemberStorage);
    const WALKS_ALL: bool = true;

    fn wanted(role: Self::Role, element: &Element, kind: MemberKind) -> Option<Self::Member> {
        let name = role?.members().iter().find(|name| **name == element.name)?;
        Some((name, member_storage(element, kind)?))
    }

    fn role(&self) -> Self::Role {
        self.kind()
    }

    fn pointed(walker: &mut Walker<'a, '_, Self>, class_name: &Arc<str>, id: u64, end: Option<usize>) -> Result<()> {
        let kind = match &**class_name {
            "TStreamerInfo" => return walker.streamer_info(),
            // They have no pointers.
            name if matches!(name, "TBasket" | "TTreeIndex") || is_element(name) => {
                let end = end.ok_or_else(|| walker.damaged(format!("a {class_name} without its length")))?;
                return walker.buffer.cursor.skip_to(end);
            }
            name if name.starts_with("TBranch") => OwnerKind::Branch,
            name if name.starts_with("TLeaf") => OwnerKind::Leaf,
            name => {
                let class = walker.class(name);
                return walker.known_or_fixed(class, id, end);
            }
        };
        let class = walker.class(class_name);
        walker.owned(kind, class, id)
    }

    fn member_object(walker: &mut Walker<'a, '_, Self>, class: ClassId) -> Result<Value<'a>> {
        let class_name = walker.class_name(class);
        let part = match walker.visitor.kind() {
            Some(OwnerKind::Histogram) => (&**class_name == "TAxis").then_some(OwnerKind::Axis),
            Some(OwnerKind::Grid) => class_name.starts_with("TNDArrayT<").then_some(OwnerKind::Cells),
            Some(OwnerKind::PolygonHistogram) => polygon_or_axis(class_name),
            Some(OwnerKind::Tree | OwnerKind::Branch | OwnerKind::Leaf)
            | Some(OwnerKind::Cells | OwnerKind::Polygon | OwnerKind::Axis)
            | Some(OwnerKind::Graph | OwnerKind::Parameter | OwnerKind::Efficiency)
            | None => None,
        };
        match part {
            Some(part) => walker.owned(part, class, 0).map(|()| Value::Other),
            None => walker.unowned(class),
        }
    }

    /// A container whose elements may have pointers is kept where it is.
    fn container(walker: &mut Walker<'a, '_, Self>, element: &Element, end: usize) -> Result<()> {
        let start = walker.position();
        let is_empty = end.checked_sub(start) == Some(4) && walker.buffer.cursor.clone().i32() == Ok(0);
        if has_only_numbers(element) || is_empty {
            return Ok(());
        }
        walker.keep_in_place(end)
    }

    fn member_begins(&mut self, (name, kind): Self::Member, at: usize) -> usize {
        self.copy_up_to(at);
        let (number, first) = (self.members.len(), self.tokens.len());
        // Only members of an object with an owner are wanted.
        let owner = self.owner.unwrap_or(0);
        self.tokens.push(Token::Member(number));
        self.members.push(RecordedMember { owner, name, kind, value: 0, counts: false, tokens: first..first });
        number
    }

    fn member_ends(&mut self, _member: Self::Member, begun: usize, value: Value<'a>, at: usize) {
        self.copy_up_to(at);
        let member = &mut self.members[begun];
        member.tokens.end = self.tokens.len();
        match value {
            Value::Number(value) => member.value = value,
            Value::Count(value) => (member.value, member.counts) = (value, true),
            Value::Link(id) => member.value = id as i64,
            Value::Numbers(number, _) if matches!(member.kind, MemberStorage::Seeks(_)) => {
                member.kind = MemberStorage::Seeks(number)
            }
            Value::Numbers(..) | Value::Text(_) | Value::Links(_) | Value::Other => {}
        }
    }

    fn header_begins(&mut self, at: usize, has_length: bool) {
        self.copy_up_to(at);
        if has_length {
            self.replace(at..at + BYTE_COUNT_BYTES, Token::Begin);
        }
    }

    fn ends(&mut self, at: usize) {
        self.copy_up_to(at);
        self.tokens.push(Token::End);
    }

    fn seen(&mut self, at: Range<usize>, id: u64) {
        let is_counted = at.len() > BYTE_COUNT_BYTES;
        self.replace(at, Token::Seen { id, is_counted });
    }

    fn object_begins(&mut self, at: Range<usize>, id: u64, class_name: &Arc<str>, has_length: bool) {
        self.replace(at, Token::Object { id, class_name: Arc::clone(class_name), is_counted: has_length });
    }

    fn array_begins(&mut self, at: Range<usize>) -> usize {
        self.replace(at.clone(), Token::Array { head: at, ends: Vec::new() });
        self.tokens.len() - 1
    }

    fn array_pointer_ends(&mut self, begun: usize, at: usize) {
        self.copy_up_to(at);
        let end = self.tokens.len();
        if let Some(Token::Array { ends, .. }) = self.tokens.get_mut(begun) {
            ends.push(end);
        }
    }
}

impl<'a> Walker<'a, '_, Recorder<'a>> {
    /// Reads an object behind a pointer, or keeps it where it is if its class is not known.
    fn known_or_fixed(&mut self, class: ClassId, id: u64, end: Option<usize>) -> Result<()> {
        let before = self.visitor.mark();
        let start = self.position();
        match (self.any_object(class, id), end) {
            (Err(error), Some(end)) if error.kind == ErrorKind::Unsupported => {
                self.visitor.go_back_to(&before);
                self.visitor.copy_up_to(start);
                if self.position() > end {
                    return Err(error);
                }
                self.keep_in_place(end)?;
                let recorder = &mut self.visitor;
                if (recorder.adds_up, recorder.inside) == (true, Inside::List) {
                    recorder.others.push(before.tokens.saturating_sub(1)..recorder.tokens.len());
                }
                Ok(())
            }
            (result, _) => result,
        }
    }

    /// Keeps what was not copied yet where it is, up to a position that is not read yet.
    fn keep_in_place(&mut self, end: usize) -> Result<()> {
        self.buffer.cursor.skip_to(end)?;
        let recorder = &mut self.visitor;
        recorder.tokens.push(Token::Fixed(recorder.copied..end));
        recorder.copied = end;
        Ok(())
    }

    /// Reads an object of any class.
    fn any_object(&mut self, class: ClassId, id: u64) -> Result<()> {
        let class_name = Arc::clone(self.class_name(class));
        let infos = self.infos();
        let recorder = &mut self.visitor;
        let before = (recorder.adds_up, recorder.inside);
        let kind = match before {
            (false, _) => None,
            (true, Inside::Grid) => (&*class_name == "TAxis").then_some(OwnerKind::Axis),
            (true, Inside::PolygonHistogram) => polygon_or_axis(&class_name),
            (true, Inside::List | Inside::Elsewhere) => recorder.kinds.of(&class_name, infos),
        };
        let first = recorder.tokens.len();
        let result = match kind {
            Some(kind) => {
                recorder.adds_up = kind.is_open();
                recorder.inside = Inside::of(kind);
                self.owned(kind, class, id)
            }
            None => {
                recorder.adds_up = before.0 && before.1 != Inside::Grid && is_container(&class_name);
                recorder.inside = match before.1 {
                    _ if !recorder.adds_up => Inside::Elsewhere,
                    Inside::PolygonHistogram => Inside::PolygonHistogram,
                    Inside::List | Inside::Grid | Inside::Elsewhere => Inside::List,
                };
                let is_other = before == (true, Inside::List) && !recorder.adds_up;
                let result = self.unowned(class).map(|_| ());
                if is_other {
                    let position = self.position();
                    self.visitor.copy_up_to(position);
                    self.visitor.others.push(first.saturating_sub(1)..self.visitor.tokens.len());
                }
                result
            }
        };
        (self.visitor.adds_up, self.visitor.inside) = before;
        result
    }

    /// Reads an object whose members are not replaced.
    fn unowned(&mut self, class: ClassId) -> Result<Value<'a>> {
        let before = self.visitor.owner.take();
        let result = self.alone(class);
        self.visitor.owner = before;
        result
    }

    /// Reads an object whose members may be replaced.
    fn owned(&mut self, kind: OwnerKind, class: ClassId, id: u64) -> Result<()> {
        let owner = self.visitor.owners.len();
        let class_name = Arc::clone(self.class_name(class));
        self.visitor.owners.push(Owner { kind, class_name, id });
        let before = self.visitor.owner.replace(owner);
        let result = self.alone(class);
        self.visitor.owner = before;
        result.map(|_| ())
    }
}

/// What an object within a TH2Poly is.
fn polygon_or_axis(class_name: &str) -> Option<OwnerKind> {
    match class_name {
        "TAxis" => Some(OwnerKind::Axis),
        "TH2PolyBin" | "TProfile2PolyBin" => Some(OwnerKind::Polygon),
        _ => None,
    }
}

/// Whether a class is that of an element of a streamer info, which has no pointers.
fn is_element(class_name: &str) -> bool {
    class_name.starts_with("TStreamer") && class_name != "TStreamerInfo"
}
