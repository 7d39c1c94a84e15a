//! The traversal of an object, its base classes, and the objects that its pointers refer to.

use std::ops::Range;
use std::sync::Arc;

use crate::classes::buffer::{ObjectBuffer, Pointer};
use crate::classes::class_info::Element;
use crate::classes::streamer::ClassInfos;
use crate::cursor::VersionHeader;
use crate::error::{FormatError, Result};
use crate::numbers::member_kind::MemberKind;
use crate::numbers::number::Number;

use super::program::{Action, ClassId, CounterId, Programs, Purpose, Step, Streamer};

/// Maximum nesting depth of objects and classes. Deeper nesting is assumed to be a cycle.
const DEPTH_MAX: usize = 200;

/// The value of a member.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value<'b> {
    /// A number, truncated to an integer.
    Number(i64),
    /// A number that may be the length of arrays.
    Count(i64),
    /// The bytes of a string.
    Text(&'b [u8]),
    /// The number type and the bytes of an array whose length is stored in another member.
    Numbers(Number, &'b [u8]),
    /// The ID of the object that a pointer refers to; 0 for a null pointer.
    Link(u64),
    /// The IDs of the objects that the pointers of a TObjArray refer to.
    Links(Vec<u64>),
    /// Any other value.
    Other,
}

/// The visitor of a walk, which selects members and receives their values. The methods with a position `at` are for
/// visitors that record the positions of all parts.
pub(crate) trait Visitor<'b>: Sized {
    /// The role of an object, which determines the members that the visitor needs.
    type Role: Copy + Eq;
    /// The visitor's identifier of a required member.
    type Member: Copy;
    /// Whether to walk through all members and objects. If false, the walk skips unneeded members and objects that have
    /// a byte count, and objects may be longer than their descriptions.
    const WALKS_ALL: bool;

    /// Select a member of an object in this role. Returns the visitor's identifier of the member, or None if the
    /// visitor does not need the member.
    fn wanted(role: Self::Role, element: &Element, kind: MemberKind) -> Option<Self::Member>;

    /// The role of the object whose members are read next.
    fn role(&self) -> Self::Role;

    /// Handle an object that a pointer refers to, from its header to its end. The visitor decides whether to walk
    /// through the object.
    fn pointed(walker: &mut Walker<'b, '_, Self>, class_name: &Arc<str>, id: u64, end: Option<usize>) -> Result<()>;

    /// Handle an object that is a member. Not called for base classes.
    fn member_object(walker: &mut Walker<'b, '_, Self>, class: ClassId) -> Result<Value<'b>> {
        walker.alone(class)
    }

    /// Handle the content of a container member, from the end of the container's header to `end`.
    fn container(_walker: &mut Walker<'b, '_, Self>, _element: &Element, _end: usize) -> Result<()> {
        Ok(())
    }

    /// Called before a selected member. The return value is passed to `member_ends`.
    fn member_begins(&mut self, _member: Self::Member, _at: usize) -> usize {
        0
    }

    /// Called after a selected member.
    fn member_ends(&mut self, member: Self::Member, begun: usize, value: Value<'b>, at: usize);

    /// Called at each version header. `_has_length` means that the header has a byte count.
    fn header_begins(&mut self, _at: usize, _has_length: bool) {}

    /// Called at the end of each object that has a byte count or was read through a pointer.
    fn ends(&mut self, _at: usize) {}

    /// Called for a pointer to an earlier object.
    fn seen(&mut self, _at: Range<usize>, _id: u64) {}

    /// Called for a pointer to a new object, before the object is read.
    fn object_begins(&mut self, _at: Range<usize>, _id: u64, _class_name: &Arc<str>, _has_length: bool) {}

    /// Called for the pointer count and lower bound of a TObjArray, before its pointers. The return value is passed to
    /// `array_pointer_ends`.
    fn array_begins(&mut self, _at: Range<usize>) -> usize {
        0
    }

    /// Called after each pointer of a TObjArray and the pointer's object.
    fn array_pointer_ends(&mut self, _begun: usize, _at: usize) {}
}

/// A walk through bytes of lifetime `'b`, with streamer infos of lifetime `'i`.
pub(crate) struct Walker<'b, 'i, V: Visitor<'b>> {
    pub(crate) buffer: ObjectBuffer<'b>,
    pub(crate) visitor: V,
    infos: &'i ClassInfos,
    programs: Programs<V::Role, V::Member>,
    /// Numbers read so far that may be array lengths. The numbers of the innermost object come last.
    counts: Vec<(CounterId, i64)>,
    /// Index in `counts` of the innermost object's first number.
    own_counts: usize,
    depth: usize,
}

impl<'b, 'i, V: Visitor<'b>> Walker<'b, 'i, V> {
    /// Create a walk through the uncompressed bytes of an object whose key has `key_size` bytes.
    pub(crate) fn new(bytes: &'b [u8], key_size: u64, infos: &'i ClassInfos, visitor: V) -> Self {
        Self::with_programs(bytes, key_size, (infos, Self::no_programs()), visitor)
    }

    /// Create an empty set of programs.
    pub(crate) fn no_programs() -> Programs<V::Role, V::Member> {
        Programs::new(Purpose { wanted: V::wanted, walks_all: V::WALKS_ALL })
    }

    /// Like [`Walker::new`], but reuse the programs of an earlier walk with the same `infos`.
    pub(crate) fn with_programs(
        bytes: &'b [u8],
        key_size: u64,
        (infos, programs): (&'i ClassInfos, Programs<V::Role, V::Member>),
        visitor: V,
    ) -> Self {
        Self {
            buffer: ObjectBuffer::new(bytes, key_size),
            visitor,
            infos,
            programs,
            counts: Vec::new(),
            own_counts: 0,
            depth: 0,
        }
    }

    /// Return the visitor, and the programs to reuse in another walk.
    pub(crate) fn finish(self) -> (V, Programs<V::Role, V::Member>) {
        (self.visitor, self.programs)
    }

    /// The class descriptions of the file.
    pub(crate) fn infos(&self) -> &'i ClassInfos {
        self.infos
    }

    /// The index of a class.
    pub(crate) fn class(&mut self, name: &str) -> ClassId {
        self.programs.class(name)
    }

    /// The name of a class.
    pub(crate) fn class_name(&self, class: ClassId) -> &Arc<str> {
        self.programs.name(class)
    }

    /// The current position in the bytes.
    pub(crate) fn position(&self) -> usize {
        self.buffer.cursor.position()
    }

    pub(crate) fn damaged(&self, message: impl Into<String>) -> FormatError {
        FormatError::damaged(self.position() as u64, message)
    }

    /// Walk through an object in its own scope: its numbers cannot be array lengths of enclosing objects.
    pub(crate) fn alone(&mut self, class: ClassId) -> Result<Value<'b>> {
        let (own_counts, known) = (self.own_counts, self.counts.len());
        self.own_counts = known;
        let result = self.object(class);
        self.counts.truncate(known);
        self.own_counts = own_counts;
        result
    }

    fn object(&mut self, class: ClassId) -> Result<Value<'b>> {
        match self.programs.streamer(class) {
            Streamer::Object => self.buffer.skip_tobject()?,
            Streamer::Nothing => {}
            Streamer::Text => return self.buffer.cursor.string_bytes().map(Value::Text),
            Streamer::Date => self.buffer.cursor.skip(4)?,
            Streamer::Numbers(number) => self.numbers(number)?,
            Streamer::Described => self.deeper(|walker| walker.described(class))?,
            Streamer::PointerArray => return self.deeper(Self::pointer_array),
            Streamer::List => self.deeper(Self::list)?,
            Streamer::Map => self.deeper(Self::map)?,
            Streamer::TextObject => self.text_object()?,
            Streamer::Clones => self.clones()?,
        }
        Ok(Value::Other)
    }

    /// Run `walk` one nesting level deeper. Fails above [`DEPTH_MAX`].
    fn deeper<T>(&mut self, walk: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= DEPTH_MAX {
            return Err(self.damaged("the objects are nested too deeply"));
        }
        self.depth += 1;
        let result = walk(self);
        self.depth -= 1;
        result
    }

    /// Read a version header.
    pub(crate) fn begin(&mut self) -> Result<VersionHeader> {
        let start = self.position();
        let header = self.buffer.cursor.version_header()?;
        self.visitor.header_begins(start, header.end.is_some());
        Ok(header)
    }

    /// Finish an object or container whose members were read. Fails if bytes remain, unless `may_have_more` is set.
    pub(crate) fn end(&mut self, header: VersionHeader, may_have_more: bool) -> Result<()> {
        let Some(end) = header.end else { return Ok(()) };
        if V::WALKS_ALL && self.position() != end && !may_have_more {
            return Err(self.damaged(format!("its members end at {}, but the object ends at {end}", self.position())));
        }
        self.buffer.cursor.skip_to(end)?;
        self.visitor.ends(end);
        Ok(())
    }

    fn described(&mut self, class: ClassId) -> Result<()> {
        let header = self.begin()?;
        let role = self.visitor.role();
        let program = self.programs.get(self.infos, class, role, header, &mut self.buffer.cursor)?;
        let Some(program) = program else {
            if header.end.is_some() && !V::WALKS_ALL {
                return self.end(header, true); // the visitor needs no member of this class
            }
            let name = self.programs.name(class);
            let message = format!("the file does not describe version {} of class {name}", header.version);
            return Err(FormatError::unsupported(message));
        };
        let may_have_more = program.is_beginning;
        // The unknown last members of a leaf contain no pointers, so they can be skipped.
        if V::WALKS_ALL && may_have_more && !program.name.starts_with("TLeaf") {
            let message = format!("only the first members of {} version {} are known", program.name, header.version);
            return Err(FormatError::unsupported(message));
        }
        for step in program.steps(header.end.is_some()) {
            self.step(step).map_err(|error| named(error, &program.name, &step.element.name))?;
        }
        self.end(header, may_have_more).map_err(|error| error.in_object(format!("class {}", program.name)))
    }

    fn step(&mut self, step: &Step<V::Member>) -> Result<()> {
        let Some(member) = step.wanted else { return self.read(step).map(|_| ()) };
        let begun = self.visitor.member_begins(member, self.position());
        let value = self.read(step)?;
        self.visitor.member_ends(member, begun, value, self.buffer.cursor.position());
        Ok(())
    }

    /// Read a member.
    #[inline(always)]
    fn read(&mut self, step: &Step<V::Member>) -> Result<Value<'b>> {
        match step.action {
            Action::Skip(size) => self.buffer.cursor.skip(size)?,
            Action::Number(number, counter) => {
                let value = number.read(&mut self.buffer.cursor)?;
                let Some(counter) = counter else { return Ok(Value::Number(value)) };
                self.counts.push((counter, value));
                return Ok(Value::Count(value));
            }
            Action::Text => return self.buffer.cursor.string_bytes().map(Value::Text),
            Action::LongText => {
                let size = i64::from(self.buffer.cursor.i32()?);
                let size = self.buffer.cursor.checked_count(size, 1)?;
                return self.buffer.cursor.take(size).map(Value::Text);
            }
            Action::CountedArray(scalar, counter) => {
                let is_there = self.buffer.cursor.u8()? != 0;
                let bytes = if is_there { self.counted(counter, scalar.stored_size())? } else { &[] };
                return Ok(Value::Numbers(scalar.number(), bytes));
            }
            Action::OldSeeks(counter) => {
                let number = if self.buffer.cursor.u8()? == 2 { Number::I64 } else { Number::I32 };
                return Ok(Value::Numbers(number, self.counted(counter, number.size())?));
            }
            Action::Object => self.buffer.skip_tobject()?,
            Action::Base(class) => return self.object(class),
            Action::Objects(class, 1) => return V::member_object(self, class),
            Action::Objects(class, count) => {
                (0..count).try_for_each(|_| V::member_object(self, class).map(|_| ()))?;
            }
            Action::SkipObject => {
                let header = self.buffer.cursor.version_header()?;
                let Some(end) = header.end else { return Err(self.damaged("an object has no byte count")) };
                self.buffer.cursor.skip_to(end)?;
            }
            Action::Pointers(1) => return self.pointer().map(Value::Link),
            Action::Pointers(count) => (0..count).try_for_each(|_| self.pointer().map(|_| ()))?,
            Action::Container => self.container(&step.element)?,
            Action::CountedObjects(class) => self.counted_objects(class)?,
            Action::Unknown => {
                let message = format!("members with type code {} are not supported", step.element.type_code);
                return Err(FormatError::unsupported(message));
            }
        }
        Ok(Value::Other)
    }

    /// The bytes of an array whose length is the value of `counter`.
    fn counted(&mut self, counter: CounterId, element_size: usize) -> Result<&'b [u8]> {
        let own = &self.counts[self.own_counts..];
        let count = own.iter().rev().find(|(of, _)| *of == counter).map(|(_, count)| *count);
        let count = count.ok_or_else(|| FormatError::unsupported("no earlier member holds the length of the array"))?;
        let count = self.buffer.cursor.checked_count(count, element_size)?;
        self.buffer.cursor.take(count.saturating_mul(element_size))
    }

    /// Walk through objects after one shared header, up to the end that the header declares.
    fn counted_objects(&mut self, class: ClassId) -> Result<()> {
        let header = self.begin()?;
        let Some(end) = header.end else { return Err(self.damaged("an array of objects has no byte count")) };
        while self.position() < end {
            let start = self.position();
            V::member_object(self, class)?;
            if self.position() == start {
                return Err(self.damaged("the objects of an array are empty"));
            }
        }
        self.end(header, false)
    }

    fn container(&mut self, element: &Element) -> Result<()> {
        let header = self.begin()?;
        let Some(end) = header.end else {
            // Only a std::string that is not a member has no byte count.
            if matches!(element.type_name.as_str(), "string" | "std::string") {
                return Err(FormatError::unsupported("a std::string has no byte count"));
            }
            return Err(FormatError::unsupported(format!("a {} has no byte count", element.type_name)));
        };
        V::container(self, element, end)?;
        self.end(header, true)
    }

    /// Read a pointer and, if the pointer refers to a new object, the object. Returns the object's ID; 0 for a null
    /// pointer.
    pub(crate) fn pointer(&mut self) -> Result<u64> {
        let start = self.position();
        match self.buffer.pointer()? {
            Pointer::Null => Ok(0),
            Pointer::Seen(id) => {
                self.visitor.seen(start..self.buffer.cursor.position(), id);
                Ok(id)
            }
            Pointer::New { id, class_name, end } => {
                self.visitor.object_begins(start..self.buffer.cursor.position(), id, &class_name, end.is_some());
                V::pointed(self, &class_name, id, end)?;
                let position = self.position();
                if end.is_some_and(|end| end != position) {
                    let message = format!("the size of an object of class {class_name} does not match its byte count");
                    return Err(self.damaged(message));
                }
                self.visitor.ends(position);
                Ok(id)
            }
        }
    }
}

/// Add the member's name to an error.
#[cold]
fn named(error: FormatError, class_name: &str, member: &str) -> FormatError {
    error.in_object(format!("{class_name}::{member}"))
}
