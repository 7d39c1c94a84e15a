//! The walk through an object, its base classes, and the objects that its pointers lead to.

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

/// Objects within objects, and classes within classes, deeper than this are taken for a loop.
const DEPTH_MAX: usize = 200;

/// What a member holds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value<'b> {
    /// A number, without its fraction.
    Number(i64),
    /// A number that may be the length of arrays.
    Count(i64),
    /// The bytes of a string.
    Text(&'b [u8]),
    /// The bytes of an array that another member counts.
    Numbers(Number, &'b [u8]),
    /// The number of the object that a pointer refers to; 0 for a null pointer.
    Link(u64),
    /// The numbers of the objects that the pointers of a TObjArray refer to.
    Links(Vec<u64>),
    /// Something else.
    Other,
}

/// The caller's part of a walk: it names the members that it wants, and gets their values. The methods with `at` are
/// for visitors that record the position of everything.
pub(crate) trait Visitor<'b>: Sized {
    /// The role of an object, on which it depends which of its members are wanted.
    type Role: Copy + Eq;
    /// The visitor's name for a member that it wants.
    type Member: Copy;
    /// Whether the walk goes through all members and objects. Otherwise it steps over those that are not wanted where
    /// their length is recorded, and objects may be longer than their descriptions.
    const WALKS_ALL: bool;

    /// The visitor's name for a member of an object in this role; None if it does not want the member.
    fn wanted(role: Self::Role, element: &Element, kind: MemberKind) -> Option<Self::Member>;

    /// The role of the object whose members come next.
    fn role(&self) -> Self::Role;

    /// An object that a pointer leads to, from its header up to where it ends. The visitor decides whether it is
    /// walked through.
    fn pointed(walker: &mut Walker<'b, '_, Self>, class_name: &Arc<str>, id: u64, end: Option<usize>) -> Result<()>;

    /// An object that is a member and no base class.
    fn member_object(walker: &mut Walker<'b, '_, Self>, class: ClassId) -> Result<Value<'b>> {
        walker.alone(class)
    }

    /// A container of this member, from behind its header up to where it ends.
    fn container(_walker: &mut Walker<'b, '_, Self>, _element: &Element, _end: usize) -> Result<()> {
        Ok(())
    }

    /// A wanted member begins. What this returns is passed on when it ends.
    fn member_begins(&mut self, _member: Self::Member, _at: usize) -> usize {
        0
    }

    /// A wanted member ends.
    fn member_ends(&mut self, member: Self::Member, begun: usize, value: Value<'b>, at: usize);

    /// A version begins, with the length of what follows or without.
    fn header_begins(&mut self, _at: usize, _has_length: bool) {}

    /// What began with a length, or with a pointer, ends.
    fn ends(&mut self, _at: usize) {}

    /// A pointer to an object that came before.
    fn seen(&mut self, _at: Range<usize>, _id: u64) {}

    /// A pointer to a new object, which follows.
    fn object_begins(&mut self, _at: Range<usize>, _id: u64, _class_name: &Arc<str>, _has_length: bool) {}

    /// The number of pointers in a TObjArray and its lower bound, in front of the pointers. What this returns is passed
    /// on behind each of these.
    fn array_begins(&mut self, _at: Range<usize>) -> usize {
        0
    }

    /// A pointer of a TObjArray, and its object, ends.
    fn array_pointer_ends(&mut self, _begun: usize, _at: usize) {}
}

/// The walk through the bytes `'b` by the streamer infos `'i`.
pub(crate) struct Walker<'b, 'i, V: Visitor<'b>> {
    pub(crate) buffer: ObjectBuffer<'b>,
    pub(crate) visitor: V,
    infos: &'i ClassInfos,
    programs: Programs<V::Role, V::Member>,
    /// Numbers that were read and may count arrays: those of the innermost object come last.
    counts: Vec<(CounterId, i64)>,
    /// Where those of the innermost object begin.
    own_counts: usize,
    depth: usize,
}

impl<'b, 'i, V: Visitor<'b>> Walker<'b, 'i, V> {
    /// Begins at the plain bytes of an object behind a key of `key_size` bytes.
    pub(crate) fn new(bytes: &'b [u8], key_size: u64, infos: &'i ClassInfos, visitor: V) -> Self {
        Self::with_programs(bytes, key_size, (infos, Self::no_programs()), visitor)
    }

    /// The programs of a walk before its first object.
    pub(crate) fn no_programs() -> Programs<V::Role, V::Member> {
        Programs::new(Purpose { wanted: V::wanted, walks_all: V::WALKS_ALL })
    }

    /// Continues with the programs of an earlier walk with these descriptions.
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

    /// The visitor, and the programs for another walk.
    pub(crate) fn finish(self) -> (V, Programs<V::Role, V::Member>) {
        (self.visitor, self.programs)
    }

    /// The classes that the file describes.
    pub(crate) fn infos(&self) -> &'i ClassInfos {
        self.infos
    }

    /// The number of a class.
    pub(crate) fn class(&mut self, name: &str) -> ClassId {
        self.programs.class(name)
    }

    /// The name of a class.
    pub(crate) fn class_name(&self, class: ClassId) -> &Arc<str> {
        self.programs.name(class)
    }

    /// Where the walk is.
    pub(crate) fn position(&self) -> usize {
        self.buffer.cursor.position()
    }

    pub(crate) fn damaged(&self, message: impl Into<String>) -> FormatError {
        FormatError::damaged(self.position() as u64, message)
    }

    /// Walks through an object by itself: its numbers are not lengths of arrays in the objects around it.
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

    /// Walks one level deeper.
    fn deeper<T>(&mut self, walk: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= DEPTH_MAX {
            return Err(self.damaged("objects are nested in a loop"));
        }
        self.depth += 1;
        let result = walk(self);
        self.depth -= 1;
        result
    }

    /// Reads a version and the length in front of it, if there is one.
    pub(crate) fn begin(&mut self) -> Result<VersionHeader> {
        let start = self.position();
        let header = self.buffer.cursor.version_header()?;
        self.visitor.header_begins(start, header.end.is_some());
        Ok(header)
    }

    /// Ends an object or container whose members were read. Fails if bytes are left, unless it `may_have_more`.
    pub(crate) fn end(&mut self, header: VersionHeader, may_have_more: bool) -> Result<()> {
        let Some(end) = header.end else { return Ok(()) };
        if V::WALKS_ALL && self.position() != end && !may_have_more {
            return Err(self.damaged(format!("its members end at {}, the object at {end}", self.position())));
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
                return self.end(header, true); // nothing of it is wanted
            }
            let name = self.programs.name(class);
            let message = format!("class {name} version {} is not described in the file", header.version);
            return Err(FormatError::unsupported(message));
        };
        let may_have_more = program.is_beginning;
        // What follows in a leaf has no pointers.
        if V::WALKS_ALL && may_have_more && !program.name.starts_with("TLeaf") {
            let message = format!("only the beginning of {} version {} is known", program.name, header.version);
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

    /// Reads a member.
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
                let Some(end) = header.end else { return Err(self.damaged("an object has no recorded length")) };
                self.buffer.cursor.skip_to(end)?;
            }
            Action::Pointers(1) => return self.pointer().map(Value::Link),
            Action::Pointers(count) => (0..count).try_for_each(|_| self.pointer().map(|_| ()))?,
            Action::Container => self.container(&step.element)?,
            Action::CountedObjects(class) => self.counted_objects(class)?,
            Action::Unknown => {
                let message = format!("members of type code {} are not read", step.element.type_code);
                return Err(FormatError::unsupported(message));
            }
        }
        Ok(Value::Other)
    }

    /// The bytes of an array whose length this member holds.
    fn counted(&mut self, counter: CounterId, element_size: usize) -> Result<&'b [u8]> {
        let own = &self.counts[self.own_counts..];
        let count = own.iter().rev().find(|(of, _)| *of == counter).map(|(_, count)| *count);
        let count = count
            .ok_or_else(|| FormatError::unsupported("the length of an array is not among the members before it"))?;
        let count = self.buffer.cursor.checked_count(count, element_size)?;
        self.buffer.cursor.take(count.saturating_mul(element_size))
    }

    /// Objects behind one header, as many as there are bytes for.
    fn counted_objects(&mut self, class: ClassId) -> Result<()> {
        let header = self.begin()?;
        let Some(end) = header.end else { return Err(self.damaged("an array of objects without its length")) };
        while self.position() < end {
            let start = self.position();
            V::member_object(self, class)?;
            if self.position() == start {
                return Err(self.damaged("an array of objects without bytes"));
            }
        }
        self.end(header, false)
    }

    fn container(&mut self, element: &Element) -> Result<()> {
        let header = self.begin()?;
        let Some(end) = header.end else {
            // A string that stands alone.
            if matches!(element.type_name.as_str(), "string" | "std::string") {
                return Err(FormatError::unsupported("a string with a header without its length"));
            }
            return Err(FormatError::unsupported(format!("a {} without its length", element.type_name)));
        };
        V::container(self, element, end)?;
        self.end(header, true)
    }

    /// Reads a pointer and, if it is new, its object. Returns the number of the object; 0 for a null pointer.
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
                    let message = format!("an object of class {class_name} ends elsewhere than its byte count says");
                    return Err(self.damaged(message));
                }
                self.visitor.ends(position);
                Ok(id)
            }
        }
    }
}

/// Names the member in which an error was found.
#[cold]
fn named(error: FormatError, class_name: &str, member: &str) -> FormatError {
    error.in_object(format!("{class_name}::{member}"))
}
