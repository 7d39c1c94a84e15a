//! Splits a tree, or any other object of described classes, into bytes to copy, position-dependent parts (byte counts,
//! class tags, references between objects) and replaceable members.

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
    /// Parse the uncompressed bytes of a TTree's record.
    ///
    /// Fails unless every class in the record is described or has a fixed format in ROOT, because unknown parts might
    /// contain references to objects that will be moved.
    pub fn of_tree(bytes: &'a [u8], key_size: u64, class_name: &str, infos: &ClassInfos) -> Result<Self> {
        let mut walker = Walker::new(bytes, key_size, infos, Recorder::new(bytes));
        let class = walker.class(class_name);
        walker.owned(OwnerKind::Tree, class, 0)?;
        Ok(walker.visitor.finish(key_size))
    }

    /// Parse the uncompressed bytes of any object. Members that can be added become replaceable. Unknown parts are kept
    /// unchanged and can only be written at the same position, with a key of the same size.
    pub fn of_object(bytes: &'a [u8], key_size: u64, class_name: &str, programs: &mut ObjectPrograms) -> Result<Self> {
        let known = programs.programs.take().unwrap_or_else(Walker::<Recorder<'_>>::no_programs);
        let mut walker = Walker::with_programs(bytes, key_size, (&programs.infos, known), Recorder::new(bytes));
        walker.visitor.adds_up = true;
        // Most objects of a file have a similar size.
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

/// Compiled class descriptions. Objects of all files with the same class descriptions share them.
#[derive(Debug)]
pub struct ObjectPrograms {
    infos: Arc<ClassInfos>,
    programs: Option<Programs<Option<OwnerKind>, (&'static str, MemberStorage)>>,
    kinds: SumKinds,
    /// Number of tokens of the last object, used to reserve memory.
    tokens_count: usize,
    members_count: usize,
}

/// Cache of [`OwnerKind::of_sum`] by class name, because looking up the lineage of a class is slow.
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
    /// Create an empty set of programs.
    pub fn new(infos: &Arc<ClassInfos>) -> Self {
        let (infos, kinds) = (Arc::clone(infos), SumKinds::default());
        Self { infos, programs: None, kinds, tokens_count: 0, members_count: 0 }
    }

    /// Whether objects of this class from several files are combined into one object.
    pub fn adds_up(&mut self, class_name: &str) -> bool {
        is_container(class_name) || self.kinds.of(class_name, &self.infos).is_some()
    }

    /// The class descriptions that the programs were compiled from.
    pub fn infos(&self) -> &Arc<ClassInfos> {
        &self.infos
    }
}

/// The kind of object that encloses an object. It decides whether the object can be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    Elsewhere,
    /// In a list, whose elements are summed one by one.
    List,
    /// In a THnBase, whose axes are separate objects.
    Grid,
    /// In a TH2Poly, whose bins are separate objects.
    PolygonHistogram,
}

impl Inside {
    /// The context of the objects that an object of this kind points to.
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

/// Recorder of an object's parts.
pub(crate) struct Recorder<'a> {
    pub(crate) tokens: Vec<Token>,
    owners: Vec<Owner>,
    members: Vec<RecordedMember>,
    /// Index of the object whose members come next; None if its members are not replaceable.
    owner: Option<usize>,
    /// End of the bytes that tokens cover so far.
    copied: usize,
    /// Whether objects reached through the next pointers can be added.
    adds_up: bool,
    /// The context of objects reached through the next pointers.
    inside: Inside,
    others: Vec<Range<usize>>,
    kinds: SumKinds,
    /// Encoded name, version and checksum of the last streamer info.
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

    /// Cover the remaining bytes and return the recording.
    fn finish(mut self, key_size: u64) -> Recording<'a> {
        self.copy_up_to(self.bytes.len());
        let Self { tokens, owners, members, bytes, others, .. } = self;
        Recording { bytes, key_size, tokens, owners, members, by_owner: OnceLock::new(), others }
    }

    /// Add a token that copies the uncovered bytes before `position`.
    pub(crate) fn copy_up_to(&mut self, position: usize) {
        if position > self.copied {
            self.tokens.push(Token::Bytes(self.copied..position));
            self.copied = position;
        }
    }

    /// Add a token for the position-dependent bytes in `at`.
    fn replace(&mut self, at: Range<usize>, token: Token) {
        self.copy_up_to(at.start);
        self.copied = at.end;
        self.tokens.push(token);
    }

    /// Mark the bytes before `position` as covered, without a token for them.
    pub(crate) fn skip_copying(&mut self, position: usize) {
        self.copied = position;
    }

    /// The bytes of a range; empty if the range is out of bounds.
    pub(crate) fn bytes(&self, range: Range<usize>) -> &'a [u8] {
        self.bytes.get(range).unwrap_or_default()
    }

    /// The kind of the object whose members come next; None if its members are not replaceable.
    fn kind(&self) -> Option<OwnerKind> {
        self.owner.map(|owner| self.owners[owner].kind)
    }

    /// Record the current state, for rolling back.
    fn mark(&self) -> Mark {
        Mark {
            tokens: self.tokens.len(),
            owners: self.owners.len(),
            members: self.members.len(),
            others: self.others.len(),
            copied: self.copied,
        }
    }

    /// Roll back to an earlier state.
    fn go_back_to(&mut self, mark: &Mark) {
        self.tokens.truncate(mark.tokens);
        self.owners.truncate(mark.owners);
        self.members.truncate(mark.members);
        self.others.truncate(mark.others);
        self.copied = mark.copied;
    }
}

/// A recorded state of a recorder, for rolling back.
struct Mark {
    tokens: usize,
    owners: usize,
    members: usize,
    others: usize,
    copied: usize,
}

impl<'a> Visitor<'a> for Recorder<'a> {
    /// The kind of an object; None for an object without replaceable members.
    type Role = Option<OwnerKind>;
    /// Name and storage form of a member.
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
            // Skip objects of these classes, because they contain no pointers.
            name if matches!(name, "TBasket" | "TTreeIndex") || is_element(name) => {
                let end = end.ok_or_else(|| walker.damaged(format!("the {class_name} has no byte count")))?;
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

    /// Keep a container's bytes at their current position if its elements may contain pointers.
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
        // The owner is always set here, because `wanted` selects only members of objects with an owner.
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
    /// Read an object that a pointer refers to. If the object is not supported, keep its bytes at their current
    /// position.
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

    /// Skip to `end`, and add a token that keeps the uncovered bytes before `end` at their current position.
    fn keep_in_place(&mut self, end: usize) -> Result<()> {
        self.buffer.cursor.skip_to(end)?;
        let recorder = &mut self.visitor;
        recorder.tokens.push(Token::Fixed(recorder.copied..end));
        recorder.copied = end;
        Ok(())
    }

    /// Read an object of any class.
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

    /// Read an object without replaceable members.
    fn unowned(&mut self, class: ClassId) -> Result<Value<'a>> {
        let before = self.visitor.owner.take();
        let result = self.alone(class);
        self.visitor.owner = before;
        result
    }

    /// Read an object with replaceable members.
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

/// The kind of an object inside a TH2Poly: a bin, an axis, or None for other classes.
fn polygon_or_axis(class_name: &str) -> Option<OwnerKind> {
    match class_name {
        "TAxis" => Some(OwnerKind::Axis),
        "TH2PolyBin" | "TProfile2PolyBin" => Some(OwnerKind::Polygon),
        _ => None,
    }
}

/// Whether this is the class of a streamer info's element. Such objects contain no pointers.
fn is_element(class_name: &str) -> bool {
    class_name.starts_with("TStreamer") && class_name != "TStreamerInfo"
}
