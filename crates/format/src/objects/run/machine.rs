//! Takes the steps of a program through the bytes of entries.

use std::collections::HashMap;

use crate::cursor::{Cursor, VersionHeader};
use crate::error::{FormatError, Result};
use crate::layout::form::Form;
use crate::layout::program::Classes;
use crate::layout::steps::{
    Block, Collection, Convert, Counted, Counter, Header, Loop, Object, Pointers, PointersKind, Step, Version,
};
use crate::marks::{IS_REFERENCED, MEMBERWISE_MASK, VERSION_COUNT_MASK};
use crate::numbers::number::Number;

use super::block::append;
use super::convert::whole_number;
use super::entry_pointers::{EntryPointers, KnownClass};
use super::expansion::{add_defaults, default_bytes, ExpansionLimit, ROUND_BYTES};
use super::slot::Slot;

/// Number of objects that means: all up to the end of the entry.
pub(crate) const REST: usize = usize::MAX;
/// Steps within steps, objects that pointers lead to among them, deeper than this are taken for a loop.
const DEPTH_MAX: usize = 200;
/// Bytes of the number of elements of a collection.
const COUNT_BYTES: usize = 4;
/// Collections of this version and later say which version of their elements' class is streamed memberwise.
pub(super) const MEMBERWISE_VERSION_MIN: i16 = 8;
/// From this version on nothing is streamed of the members of empty collections.
const EMPTY_LEFT_OUT_VERSION: i16 = 7;

/// The members of a TObject.
#[derive(Debug, Clone, Copy)]
pub(super) struct ObjectIdentity {
    /// TObject::fUniqueID.
    pub(super) unique_id: u32,
    /// TObject::fBits.
    pub(super) bits: u32,
}

/// The walk over the entries of a basket.
pub(crate) struct Machine<'a> {
    pub(crate) cursor: Cursor<'a>,
    /// All bytes up to the end of the entry.
    data: &'a [u8],
    pub(crate) slots: Vec<Slot>,
    pub(crate) classes: &'a Classes,
    /// Bytes of the key, which references between objects count too.
    pub(crate) key_size: u64,
    depth: usize,
    expansion: ExpansionLimit,
    /// Whether a header was not as assumed since this was last reset.
    pub(crate) has_learned: bool,
    /// Whether the walk ends where objects turn out to have no headers, and whether it has ended for this reason.
    pub(crate) may_start_over: bool,
    pub(crate) starts_over: bool,
    pub(super) entry: EntryPointers,
    pub(super) known: HashMap<Vec<u8>, KnownClass>,
    /// The class of the innermost object behind a pointer that could not be read.
    pub(super) failed: Option<String>,
    /// Why the first object that was stepped over is not read.
    pub(super) stepped_over: Option<String>,
    /// Memory for numbers as they are stored.
    pub(super) stored: Vec<u8>,
}

impl<'a> Machine<'a> {
    pub(crate) fn new(data: &'a [u8], key_size: u64, classes: &'a Classes) -> Self {
        Self {
            cursor: Cursor::new(data),
            data,
            slots: Vec::new(),
            classes,
            key_size,
            depth: 0,
            expansion: ExpansionLimit::of(data.len()),
            has_learned: false,
            may_start_over: true,
            starts_over: false,
            entry: EntryPointers::default(),
            known: HashMap::new(),
            failed: None,
            stepped_over: None,
            stored: Vec::new(),
        }
    }

    /// Goes to an entry that begins at `position` and ends with `data`.
    pub(crate) fn begin_entry(&mut self, data: &'a [u8], position: usize) {
        self.data = data;
        self.go_to(position);
        self.entry.begin(data.len().saturating_sub(position));
    }

    /// Goes to a position in the bytes of the entry or before them.
    pub(super) fn go_to(&mut self, position: usize) {
        self.cursor = Cursor::at(self.data, position);
    }

    /// Fuses again the steps of the classes that pointers led to.
    pub(crate) fn fuse_known_again(&mut self) {
        for known in self.known.values_mut() {
            known.class.fuse_again();
            known.steps = known.class.steps();
        }
    }

    pub(crate) fn damaged(&self, message: impl Into<String>) -> FormatError {
        FormatError::damaged(self.cursor.position() as u64, message)
    }

    /// Takes steps for `count` objects, each step for all of them before the next.
    pub(crate) fn run(&mut self, steps: &[Step], base: usize, count: usize) -> Result<()> {
        self.deeper(|machine| steps.iter().try_for_each(|step| machine.step(step, base, count).map(|_| ())))
    }

    /// Runs something one level deeper; fails where there are too many levels.
    pub(super) fn deeper<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= DEPTH_MAX {
            return Err(self.damaged("objects are nested too deeply"));
        }
        self.depth += 1;
        let result = work(self);
        self.depth -= 1;
        result
    }

    /// Counts bytes that are filled without bytes of the file; fails where there are too many.
    pub(super) fn count_expansion(&mut self, bytes: usize) -> Result<()> {
        self.expansion.take(bytes, self.cursor.position())
    }

    /// Repeats something; rounds in which nothing is read are limited.
    pub(super) fn times(&mut self, count: usize, mut work: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        for _ in 0..count {
            let start = self.cursor.position();
            work(self)?;
            if self.cursor.position() == start {
                self.count_expansion(ROUND_BYTES)?;
            }
        }
        Ok(())
    }

    /// Repeats something for each of `count` objects. Returns how many there were.
    pub(super) fn each(&mut self, count: usize, mut work: impl FnMut(&mut Self) -> Result<()>) -> Result<usize> {
        if count != REST {
            self.times(count, work)?;
            return Ok(count);
        }
        let mut done = 0;
        while self.cursor.remaining() > 0 {
            let start = self.cursor.position();
            work(self)?;
            if self.cursor.position() == start {
                return Err(self.damaged("objects that have no bytes cannot be counted"));
            }
            done += 1;
        }
        Ok(done)
    }

    /// Takes one step for `count` objects, and returns how many there were.
    pub(crate) fn step(&mut self, step: &Step, base: usize, count: usize) -> Result<usize> {
        match step {
            Step::Block(block) => self.block(block, base, count),
            Step::Text { slot, length } if count != REST => {
                self.texts(base + slot, *length, count)?;
                Ok(count)
            }
            Step::Text { slot, length } => self.each(count, |machine| machine.texts(base + slot, *length, 1)),
            Step::TObject => self.each(count, |machine| machine.tobject().map(|_| ())),
            Step::Identity { unique_id, bits } => {
                self.each(count, |machine| machine.identity(base + unique_id, base + bits))
            }
            Step::Bits { slot } => self.each(count, |machine| machine.bits(base + slot)),
            Step::TRef { slot } => self.each(count, |machine| machine.tref(base + slot)),
            Step::Repeat { count: each, steps } => self.repeat(steps, base, count, *each),
            Step::Object(object) => self.each(count, |machine| machine.object(object, base)),
            Step::Headed { count: each, steps } => self.headed(steps, base, count, *each),
            Step::Collection(collection) => match step.number_lists() {
                Some((list, numbers)) if count != REST => {
                    self.number_lists(base + list.list, base + numbers.slot, numbers, count)?;
                    Ok(count)
                }
                _ => self.each(count, |machine| machine.collection(collection, base)),
            },
            Step::Counted(counted) => self.counted(counted, base, count),
            Step::Loop(repeated) => self.repeated(repeated, base, count),
            Step::Pointer { slot } => self.each(count, |machine| machine.pointer(base + slot)),
            Step::NamedObject { slot } => self.each(count, |machine| machine.named_object(base + slot)),
            Step::Pointers(pointers) => self.each(count, |machine| machine.pointers(pointers, base)),
            Step::Clones { list, slot } => self.each(count, |machine| machine.clones(base + list, base + slot)),
            Step::Convert(convert) => self.each(count, |machine| machine.convert(convert, base)),
            Step::Nested { slot, class_name } => self.each(count, |machine| machine.nested(base + slot, class_name)),
            Step::Undescribed { numbers: Some(one), .. } => {
                self.block(&Block::numbers(one.scalar, 1, one.slot), base, count)
            }
            Step::Undescribed { class_name, .. } => self.each(count, |_| Err(undescribed(class_name))),
            Step::Default(form) => self.defaults(form, base, count).map(|()| count),
        }
    }

    /// Adds the defaults of members that are not stored, or of whole objects.
    pub(super) fn defaults(&mut self, form: &Form, base: usize, count: usize) -> Result<()> {
        self.count_expansion(default_bytes(form).saturating_mul(count))?;
        add_defaults(form, &mut self.slots[base..], count);
        Ok(())
    }

    #[inline]
    fn block(&mut self, block: &Block, base: usize, count: usize) -> Result<usize> {
        let blocks = match count {
            REST => self.blocks_left(block),
            count => Some(count),
        };
        let size = blocks.map(|blocks| block.size.saturating_mul(blocks));
        if !block.fallback.is_empty() {
            let data = size.and_then(|size| self.cursor.rest().get(..size));
            if !data.is_some_and(|data| block.agrees(data, blocks.unwrap_or(0))) {
                return self.each(count, |machine| machine.run(&block.fallback, base, 1));
            }
        }
        let (Some(blocks), Some(size)) = (blocks, size) else {
            let remaining = self.cursor.remaining();
            return Err(self.damaged(format!("{remaining} bytes are no whole number of {}", block.size)));
        };
        let data = self.cursor.take(size)?;
        if blocks > 0 {
            block.take(data, blocks, &mut self.slots[base..]);
        }
        Ok(blocks)
    }

    /// The number of blocks in the rest of the entry; None if it is not a whole number.
    fn blocks_left(&self, block: &Block) -> Option<usize> {
        let remaining = self.cursor.remaining();
        remaining.is_multiple_of(block.size).then(|| remaining.checked_div(block.size)).flatten()
    }

    pub(super) fn push_text(&mut self, slot: usize, text: &[u8]) {
        let slot = &mut self.slots[slot];
        slot.bytes.extend_from_slice(text);
        slot.offsets.push(slot.bytes.len() as i64);
    }

    /// Reads a TObject (TObject::Streamer).
    pub(super) fn tobject(&mut self) -> Result<ObjectIdentity> {
        let version = self.cursor.i16()?;
        if version & VERSION_COUNT_MASK != 0 {
            self.cursor.skip(4)?; // what was taken for a version was the first half of a byte count
        }
        let unique_id = self.cursor.u32()?;
        let bits = self.cursor.u32()?;
        if bits & IS_REFERENCED != 0 {
            self.cursor.skip(2)?;
        }
        Ok(ObjectIdentity { unique_id, bits })
    }

    fn identity(&mut self, unique_id_slot: usize, bits_slot: usize) -> Result<()> {
        let ObjectIdentity { unique_id, bits } = self.tobject()?;
        self.slots[unique_id_slot].bytes.extend_from_slice(&unique_id.to_ne_bytes());
        self.slots[bits_slot].bytes.extend_from_slice(&bits.to_ne_bytes());
        Ok(())
    }

    fn bits(&mut self, slot: usize) -> Result<()> {
        let bits = self.cursor.u32()?;
        if bits & IS_REFERENCED != 0 {
            self.cursor.skip(2)?;
        }
        self.slots[slot].bytes.extend_from_slice(&bits.to_ne_bytes());
        Ok(())
    }

    fn tref(&mut self, slot: usize) -> Result<()> {
        let number = self.tobject()?.unique_id;
        let _process = self.cursor.u16()?;
        self.slots[slot].bytes.extend_from_slice(&number.to_ne_bytes());
        Ok(())
    }

    fn repeat(&mut self, steps: &[Step], base: usize, count: usize, each: usize) -> Result<usize> {
        if let ([step], Some(all)) = (steps, count.checked_mul(each).filter(|_| count != REST)) {
            self.step(step, base, all)?;
            return Ok(count);
        }
        self.each(count, |machine| machine.times(each, |machine| machine.run(steps, base, 1)))
    }

    fn object(&mut self, object: &Object, base: usize) -> Result<()> {
        let (header, version) = self.object_header(object)?;
        self.run(&version.steps, base, 1)?;
        self.finish(header, &object.class_name)
    }

    /// Reads the header of an object up to its members.
    fn object_header<'o>(&mut self, object: &'o Object) -> Result<(VersionHeader, &'o Version)> {
        if let (Header::None, Some(usual)) = (object.header.now(), object.versions.first()) {
            return Ok((VersionHeader { version: 0, end: None }, usual));
        }
        let start = self.cursor.position();
        let header = self.cursor.version_header()?;
        let (version, kind) = match header.version {
            // A class whose ClassDef says 0 has no checksum.
            ..=0 if object.version(0).is_none() || object.takes_any => {
                let checksum = self.cursor.u32()?;
                let version = object.checksum(checksum).filter(|one| header.end.is_some() || one.checksum == checksum);
                (version, Header::Foreign)
            }
            number => (object.version(number), if header.end.is_some() { Header::Versioned } else { Header::Short }),
        };
        match (version, object.versions.first()) {
            (Some(version), _) => {
                self.has_learned |= object.header.learn(kind);
                Ok((header, version))
            }
            // What is neither a byte count nor a version belongs to the members already.
            (None, Some(usual)) if header.end.is_none() => {
                self.go_to(start);
                let is_new = object.header.learn(Header::None);
                if is_new && self.may_start_over {
                    self.starts_over = true;
                    return Err(self.damaged(format!("objects of class {} have no headers", object.class_name)));
                }
                self.has_learned |= is_new;
                Ok((header, usual))
            }
            _ => Err(self.not_described(&object.class_name, header.version)),
        }
    }

    /// The version of their class that elements have which are streamed memberwise.
    pub(super) fn members_version<'o>(&mut self, object: &'o Object) -> Result<Option<&'o Version>> {
        let header = self.cursor.version_header()?;
        let version = match header.version {
            ..=0 if object.version(0).is_none() || object.takes_any => {
                let checksum = self.cursor.u32()?;
                object.checksum(checksum)
            }
            number => object.version(number),
        };
        // Of a class that is not described nothing may be stored.
        match (version, object.versions.is_empty()) {
            (None, false) => Err(self.not_described(&object.class_name, header.version)),
            (version, _) => Ok(version),
        }
    }

    fn not_described(&self, class_name: &str, version: i16) -> FormatError {
        let which = if version <= 0 { "with a checksum".to_string() } else { format!("of version {version}") };
        self.damaged(format!("an object of class {class_name} {which} that the file does not describe"))
    }

    /// The end of an object must be where its header says.
    pub(super) fn finish(&mut self, header: VersionHeader, class_name: &str) -> Result<()> {
        match header.end {
            Some(end) if end != self.cursor.position() => {
                let found = self.cursor.position() as i64 - end as i64;
                let what = if found < 0 { "more" } else { "fewer" };
                let bytes = found.unsigned_abs();
                Err(self.damaged(format!("an object of class {class_name} has {bytes} bytes {what} than its members")))
            }
            _ => Ok(()),
        }
    }

    /// One header, and behind it `each` things of each of `count` objects.
    fn headed(&mut self, steps: &[Step], base: usize, count: usize, each: usize) -> Result<usize> {
        let header = self.cursor.version_header()?;
        let done = self.behind(&header, steps, base, count, each).and_then(|done| {
            self.finish(header, "a container")?;
            Ok(done)
        });
        done.map_err(|error| Step::unknown_enumeration(steps).map_or(error, undescribed_enumeration))
    }

    /// What `headed` reads behind the header.
    fn behind(
        &mut self,
        header: &VersionHeader,
        steps: &[Step],
        base: usize,
        count: usize,
        each: usize,
    ) -> Result<usize> {
        Ok(match steps {
            [Step::Collection(collection)] if header.version & MEMBERWISE_MASK != 0 => {
                self.memberwise(collection, header.version & !MEMBERWISE_MASK, base, count, each)?
            }
            _ if header.version & MEMBERWISE_MASK != 0 => {
                return Err(self.damaged("something that is no collection is streamed memberwise"));
            }
            [Step::Collection(collection)] if self.are_ints(collection, header.end) => {
                self.each(count, |machine| machine.times(each, |machine| machine.ints(collection, base)))?
            }
            steps => self.repeat(steps, base, count, each)?,
        })
    }

    /// Whether collections up to `end` are of enumerations that ROOT stores as ints although they have another size. It
    /// does so in a std::vector or std::set, but not in a std::list, or where containers are nested: the sizes tell.
    fn are_ints(&self, collection: &Collection, end: Option<usize>) -> bool {
        let [Step::Undescribed { numbers: Some(one), .. }] = &*collection.steps else { return false };
        let size = end.and_then(|end| end.checked_sub(self.cursor.position()));
        let Some(mut rest) = size.and_then(|size| self.cursor.rest().get(..size)) else { return false };
        while let Some((count, behind)) = rest.split_first_chunk::<COUNT_BYTES>() {
            let ints = (u32::from_be_bytes(*count) as usize).checked_mul(size_of::<i32>());
            let Some(next) = ints.and_then(|size| behind.get(size..)) else { return false };
            rest = next;
        }
        rest.is_empty() && one.scalar.stored_size() != size_of::<i32>()
    }

    /// A collection of enumerations that are stored as ints.
    fn ints(&mut self, collection: &Collection, base: usize) -> Result<()> {
        let [Step::Undescribed { numbers: Some(one), .. }] = &*collection.steps else {
            return Err(FormatError::internal("a collection of something else than enumerations"));
        };
        let count = self.count(size_of::<i32>())?;
        self.push_list(base + collection.list, count);
        self.convert(&Convert { stored: Number::I32.into(), count, slot: one.slot, number: one.scalar.number() }, base)
    }

    /// Collections that are streamed memberwise: one member of all elements, then the next member of all.
    fn memberwise(
        &mut self,
        collection: &Collection,
        version: i16,
        base: usize,
        count: usize,
        each: usize,
    ) -> Result<usize> {
        if let [Step::Nested { slot, class_name }] = collection.steps.as_slice() {
            let places = (base + collection.list, base + slot);
            return self.nested_memberwise(places, class_name, version, count, each);
        }
        let Some(object) = &collection.memberwise else {
            return Err(self.damaged("a collection of something else than objects is streamed memberwise"));
        };
        let usual = object.versions.first();
        let of_class = if version >= MEMBERWISE_VERSION_MIN { self.members_version(object)? } else { usual };
        let members = of_class.map_or(&[][..], |version| &version.members);
        self.each(count, |machine| {
            machine.times(each, |machine| {
                // Elements without members take no bytes.
                let elements = machine.count(usize::from(!members.is_empty()))?;
                if let (true, [Step::Undescribed { numbers: Some(_), class_name }]) = (elements > 0, &*collection.steps)
                {
                    return Err(undescribed(class_name));
                }
                machine.push_list(base + collection.list, elements);
                if elements > 0 || version < EMPTY_LEFT_OUT_VERSION {
                    machine.run(members, base, elements)?;
                }
                Ok(())
            })
        })
    }

    /// A count of four bytes, of items of at least `size_min` bytes each.
    pub(super) fn count(&mut self, size_min: usize) -> Result<usize> {
        let count = i64::from(self.cursor.i32()?);
        match usize::try_from(count) {
            Ok(count) if size_min == 0 => Ok(count),
            _ => self.cursor.checked_count(count, size_min),
        }
    }

    /// Counts the elements of one more list.
    pub(crate) fn push_list(&mut self, list: usize, elements: usize) {
        let offsets = &mut self.slots[list].offsets;
        offsets.push(offsets.last().copied().unwrap_or(0) + elements as i64);
    }

    fn collection(&mut self, collection: &Collection, base: usize) -> Result<()> {
        let elements = self.count(1)?;
        self.push_list(base + collection.list, elements);
        match collection.steps.as_slice() {
            [Step::Block(block)] => self.block(block, base, elements).map(|_| ()),
            [step] => match step.number_lists() {
                Some((inner, numbers)) => self.number_lists(base + inner.list, base + numbers.slot, numbers, elements),
                None => self.deeper(|machine| machine.step(step, base, elements).map(|_| ())),
            },
            steps => self.times(elements, |machine| machine.run(steps, base, 1)),
        }
    }

    fn counted(&mut self, counted: &Counted, base: usize, count: usize) -> Result<usize> {
        if count == REST {
            return Err(FormatError::internal("an array is decoded without the branch that counts it"));
        }
        for index in 0..count {
            let is_there = !counted.has_flag || self.cursor.u8()? != 0;
            let elements = if is_there { self.counter_value(counted, base, index, count)? } else { 0 };
            let size = counted.element_size();
            self.times(counted.arrays, |machine| {
                let stored = machine.cursor.take(elements.saturating_mul(size))?;
                append(counted.scalar, stored, &mut machine.slots[base + counted.slot].bytes);
                machine.push_list(base + counted.list, elements);
                Ok(())
            })?;
        }
        Ok(count)
    }

    fn counter_value(&self, counted: &Counted, base: usize, index: usize, count: usize) -> Result<usize> {
        let value = self.counter(&counted.counter, base, index, count)?;
        let value = if counted.is_triangle { value.saturating_mul(value.saturating_add(1)) / 2 } else { value };
        self.cursor.checked_count(value, counted.element_size())
    }

    /// The value of the counter of the object `index` of `count` that were read last.
    fn counter(&self, counter: &Counter, base: usize, index: usize, count: usize) -> Result<i64> {
        let bytes = &self.slots[base + counter.slot].bytes;
        let size = counter.number.size();
        let start = bytes.len().checked_sub(size * (count - index));
        let value = start.and_then(|start| whole_number(counter.number, &bytes[start..start + size]));
        value.map(|value| value.max(0)).ok_or_else(|| self.damaged("an array whose counter is not there"))
    }

    /// Arrays of objects behind one header (kStreamLoop).
    fn repeated(&mut self, repeated: &Loop, base: usize, count: usize) -> Result<usize> {
        let header = self.cursor.version_header()?;
        match (&repeated.counter, header.end) {
            (Some(counter), _) if count != REST => {
                for index in 0..count {
                    let elements = self.counter(counter, base, index, count)?;
                    let elements = self.cursor.checked_count(elements, 1)?;
                    self.times(repeated.arrays, |machine| {
                        machine.push_list(base + repeated.list, elements);
                        machine.times(elements, |machine| machine.run(&repeated.steps, base, 1))
                    })?;
                }
            }
            (None, Some(end)) if count == 1 && repeated.arrays == 1 => {
                let mut elements = 0;
                while self.cursor.position() < end {
                    let start = self.cursor.position();
                    self.run(&repeated.steps, base, 1)?;
                    if self.cursor.position() == start {
                        return Err(self.damaged("objects that have no bytes cannot be counted"));
                    }
                    elements += 1;
                }
                self.push_list(base + repeated.list, elements);
            }
            (None, None) => return Err(self.damaged("an array of objects without its length")),
            _ => return Err(FormatError::unsupported("arrays of objects whose lengths are in another branch")),
        }
        self.finish(header, "an array of objects")?;
        Ok(count)
    }

    fn convert(&mut self, convert: &Convert, base: usize) -> Result<()> {
        let stored = self.cursor.take(convert.stored.stored_size().saturating_mul(convert.count))?;
        convert.append(stored, &mut self.slots[base + convert.slot].bytes);
        Ok(())
    }

    /// TObjArray, TList and TMap.
    fn pointers(&mut self, pointers: &Pointers, base: usize) -> Result<()> {
        let Pointers { list, kind, slots, name } = pointers;
        let header = self.cursor.version_header()?;
        let (object_from, name_from) = if *kind == PointersKind::List { (4, 4) } else { (3, 2) };
        if header.version >= object_from {
            self.tobject()?;
        }
        let own_name = if header.version >= name_from { self.cursor.string_bytes()? } else { &[] };
        if let Some(name) = name {
            self.push_text(base + name, own_name);
        }
        let count = i64::from(self.cursor.i32()?);
        if *kind == PointersKind::Array {
            let _lower_bound = self.cursor.i32()?;
        }
        let count = self.cursor.checked_count(count, 4)?;
        for _ in 0..count {
            slots.iter().try_for_each(|slot| self.pointer(base + slot))?;
            if *kind == PointersKind::List {
                self.cursor.string_bytes()?; // the option of the link
            }
        }
        self.push_list(base + list, count);
        self.finish(header, "a ROOT container")
    }
}

fn undescribed_enumeration(name: &str) -> FormatError {
    FormatError::unsupported(format!("the file does not say which type the numbers of enumeration {name} have"))
}

fn undescribed(class_name: &str) -> FormatError {
    FormatError::unsupported(format!("an object of class {class_name}, which the file does not describe"))
}
