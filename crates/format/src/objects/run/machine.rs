//! Execution of a program's steps.

use std::collections::HashMap;

use crate::cursor::{Cursor, VersionHeader};
use crate::error::{FormatError, Result};
use crate::layout::form::Form;
use crate::layout::program::Classes;
use crate::layout::steps::{
    Block, Collection, Convert, Counted, Counter, Header, Loop, Object, Pointers, PointersKind, Step, Version,
};
use crate::marks::{IS_REFERENCED, MEMBERWISE_MASK, VERSION_COUNT_MASK};

use super::block::append;
use super::convert::whole_number;
use super::entry_pointers::{EntryPointers, KnownClass};
use super::expansion::{add_defaults, default_bytes, ExpansionLimit, ROUND_BYTES};
use super::slot::Slot;

/// Special object count: read objects until the end of the entry.
pub(crate) const REST: usize = usize::MAX;
/// Maximum nesting depth of steps, including objects that pointers refer to. Deeper nesting is assumed to be a cycle.
const DEPTH_MAX: usize = 200;
/// Size in bytes of a collection's element count.
pub(super) const COUNT_BYTES: usize = 4;
/// First container version whose memberwise collections store the class version of the elements.
pub(super) const MEMBERWISE_VERSION_MIN: i16 = 8;
/// First container version whose empty memberwise collections store nothing for the members.
const EMPTY_LEFT_OUT_VERSION: i16 = 7;

/// The members fUniqueID and fBits of a TObject.
#[derive(Debug, Clone, Copy)]
pub(super) struct ObjectIdentity {
    pub(super) unique_id: u32,
    pub(super) bits: u32,
}

/// State of a walk over the entries of a basket.
pub(crate) struct Machine<'a> {
    pub(crate) cursor: Cursor<'a>,
    /// All bytes of the basket up to the end of the current entry.
    data: &'a [u8],
    pub(crate) slots: Vec<Slot>,
    pub(crate) classes: &'a Classes,
    /// Size of the key. References between objects are relative to the start of the key.
    pub(crate) key_size: u64,
    depth: usize,
    expansion: ExpansionLimit,
    /// Whether a header has differed from the assumed kind since this flag was last reset.
    pub(crate) has_learned: bool,
    /// Whether to stop the walk if a class's objects turn out to have no headers. `starts_over` is set on such a stop.
    pub(crate) may_start_over: bool,
    pub(crate) starts_over: bool,
    pub(super) entry: EntryPointers,
    pub(super) known: HashMap<Vec<u8>, KnownClass>,
    /// Class name of the innermost unreadable object that a pointer refers to.
    pub(super) failed: Option<String>,
    /// Reason why the first skipped object could not be read.
    pub(super) stepped_over: Option<String>,
    /// Names of the enumerations in fixed-size arrays that ROOT may have omitted, without duplicates.
    pub(super) unsure_array_names: Vec<String>,
    pub(super) unsure_arrays: UnsureArrays,
    pub(super) stored: Vec<u8>, // a buffer for undecoded numbers
}

/// Assumption about fixed-size arrays of enumerations, which ROOT may have omitted. Each assumption may be tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum UnsureArrays {
    /// The arrays are stored, and all objects after them have their usual headers.
    #[default]
    Undecided,
    /// The arrays are omitted and their columns stay empty. Only used to explain why the first assumption failed.
    LeftOut,
    /// The arrays are stored, and objects after them may have no headers.
    Stored,
    /// The arrays of the i-th enumeration are omitted if bit i of `omitted` is set. Used like `LeftOut`.
    Mixed { omitted: u8 },
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
            unsure_array_names: Vec::new(),
            unsure_arrays: UnsureArrays::default(),
            stored: Vec::new(),
        }
    }

    /// Move to an entry that starts at `position` and ends at the end of `data`.
    pub(crate) fn begin_entry(&mut self, data: &'a [u8], position: usize) {
        self.data = data;
        self.go_to(position);
        self.entry.begin(data.len().saturating_sub(position));
    }

    /// Move to a position at or before the end of the entry.
    pub(super) fn go_to(&mut self, position: usize) {
        self.cursor = Cursor::at(self.data, position);
    }

    /// Fuse the steps again for every class that a pointer has led to.
    pub(crate) fn fuse_known_again(&mut self) {
        for known in self.known.values_mut() {
            known.class.fuse_again();
            known.steps = known.class.steps();
        }
    }

    pub(crate) fn damaged(&self, message: impl Into<String>) -> FormatError {
        FormatError::damaged(self.cursor.position() as u64, message)
    }

    /// Execute steps for `count` objects. Each step is executed for all objects before the next step.
    pub(crate) fn run(&mut self, steps: &[Step], base: usize, count: usize) -> Result<()> {
        self.deeper(|machine| steps.iter().try_for_each(|step| machine.step(step, base, count).map(|_| ())))
    }

    /// Run `work` one nesting level deeper. Fails above [`DEPTH_MAX`].
    pub(super) fn deeper<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= DEPTH_MAX {
            return Err(self.damaged("objects are nested too deeply"));
        }
        self.depth += 1;
        let result = work(self);
        self.depth -= 1;
        result
    }

    /// Charge memory that is filled without bytes from the file. Fails if the expansion limit is exceeded.
    pub(super) fn count_expansion(&mut self, bytes: usize) -> Result<()> {
        self.expansion.take(bytes, self.cursor.position())
    }

    /// Run `work` `count` times. The number of iterations that read nothing is limited.
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

    /// Run `work` for `count` objects ([`REST`]: until the end of the entry). Returns the number of objects.
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
                return Err(self.damaged("the number of objects is unknown because they have no bytes"));
            }
            done += 1;
        }
        Ok(done)
    }

    /// Execute one step for `count` objects. Returns the number of objects.
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
            Step::Repeat { .. } if self.leaves_out(step) => Ok(if count == REST { 0 } else { count }),
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

    /// Append default values for members that are not stored, or for whole objects.
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
            return Err(self.damaged(format!("the remaining {remaining} bytes are not a multiple of {}", block.size)));
        };
        let data = self.cursor.take(size)?;
        if blocks > 0 {
            block.take(data, blocks, &mut self.slots[base..]);
        }
        Ok(blocks)
    }

    /// The number of blocks in the rest of the entry; None if the rest is not a multiple of the block size.
    fn blocks_left(&self, block: &Block) -> Option<usize> {
        let remaining = self.cursor.remaining();
        remaining.is_multiple_of(block.size).then(|| remaining.checked_div(block.size)).flatten()
    }

    pub(super) fn push_text(&mut self, slot: usize, text: &[u8]) {
        let slot = &mut self.slots[slot];
        slot.bytes.extend_from_slice(text);
        slot.offsets.push(slot.bytes.len() as i64);
    }

    /// Read a TObject (TObject::Streamer).
    pub(super) fn tobject(&mut self) -> Result<ObjectIdentity> {
        let version = self.cursor.i16()?;
        if version & VERSION_COUNT_MASK != 0 {
            self.cursor.skip(4)?; // the "version" was the first half of a byte count
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

    /// Read an object's header, and stop at its first member.
    fn object_header<'o>(&mut self, object: &'o Object) -> Result<(VersionHeader, &'o Version)> {
        if let (Header::None, Some(usual)) = (object.header.now(), object.versions.first()) {
            return Ok((VersionHeader { version: 0, end: None }, usual));
        }
        let start = self.cursor.position();
        let header = self.version_header()?;
        let (version, kind) = match header.version {
            // Version 0 means that a checksum follows, except for a class whose ClassDef has version 0.
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
            // Bytes that are neither a byte count nor a known version already belong to the members.
            (None, Some(usual)) if header.end.is_none() && self.may_lack_headers() => {
                self.go_to(start);
                let is_new = object.header.learn(Header::None);
                if is_new && self.may_start_over {
                    self.starts_over = true;
                    return Err(self.damaged(format!("the objects of class {} have no headers", object.class_name)));
                }
                self.has_learned |= is_new;
                Ok((header, usual))
            }
            _ => Err(self.not_described(&object.class_name, header.version)),
        }
    }

    /// Read the class version of memberwise elements.
    pub(super) fn members_version<'o>(&mut self, object: &'o Object) -> Result<Option<&'o Version>> {
        let header = self.cursor.version_header()?;
        let version = match header.version {
            ..=0 if object.version(0).is_none() || object.takes_any => {
                let checksum = self.cursor.u32()?;
                object.checksum(checksum)
            }
            number => object.version(number),
        };
        // An undescribed class is accepted, because the collection may be empty.
        match (version, object.versions.is_empty()) {
            (None, false) => Err(self.not_described(&object.class_name, header.version)),
            (version, _) => Ok(version),
        }
    }

    fn not_described(&self, class_name: &str, version: i16) -> FormatError {
        let which = if version <= 0 { "with a checksum".to_string() } else { format!("of version {version}") };
        self.damaged(format!("an object has class {class_name} {which}, which the file does not describe"))
    }

    /// Check that an object ends at the position that its header declares.
    pub(super) fn finish(&mut self, header: VersionHeader, class_name: &str) -> Result<()> {
        match header.end {
            Some(end) if end != self.cursor.position() => {
                let found = self.cursor.position() as i64 - end as i64;
                let what = if found < 0 { "more" } else { "fewer" };
                let bytes = found.unsigned_abs();
                Err(self.damaged(format!("the object of class {class_name} has {bytes} bytes {what} than its members")))
            }
            _ => Ok(()),
        }
    }

    /// Read one header, followed by `each` values for each of `count` objects.
    fn headed(&mut self, steps: &[Step], base: usize, count: usize, each: usize) -> Result<usize> {
        let header = self.version_header()?;
        let done = self.behind(&header, steps, base, count, each).and_then(|done| {
            self.finish(header, "a container")?;
            Ok(done)
        });
        done.map_err(|error| Step::unknown_enumeration(steps).map_or(error, undescribed_enumeration))
    }

    /// Read the values after the header that `headed` has read.
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
                let done = self.memberwise(collection, header.version & !MEMBERWISE_MASK, base, count, each)?;
                match &*collection.steps {
                    [Step::Undescribed { class_name, .. }]
                        if header.end.is_some_and(|end| self.cursor.position() < end) =>
                    {
                        return Err(undescribed(class_name));
                    }
                    _ => done,
                }
            }
            _ if header.version & MEMBERWISE_MASK != 0 => {
                return Err(self.damaged("a value that is not a collection is streamed memberwise"));
            }
            [Step::Collection(collection)] if self.are_ints(collection, header.end) => {
                self.each(count, |machine| machine.times(each, |machine| machine.ints(collection, base)))?
            }
            steps => self.repeat(steps, base, count, each)?,
        })
    }

    /// Read memberwise collections, which store one member of all elements before the next member.
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
            return Err(self.damaged("a collection whose elements are not objects is streamed memberwise"));
        };
        let usual = object.versions.first();
        let of_class = if version >= MEMBERWISE_VERSION_MIN { self.members_version(object)? } else { usual };
        let members = of_class.map_or(&[][..], |version| &version.members);
        self.each(count, |machine| {
            machine.times(each, |machine| {
                // Elements without members have no bytes.
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

    /// Read a four-byte count of items, each of at least `size_min` bytes.
    pub(super) fn count(&mut self, size_min: usize) -> Result<usize> {
        let count = i64::from(self.cursor.i32()?);
        match usize::try_from(count) {
            Ok(count) if size_min == 0 => Ok(count),
            _ => self.cursor.checked_count(count, size_min),
        }
    }

    /// Append a list with `elements` elements.
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
            return Err(FormatError::internal("an array is decoded without its counter branch"));
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

    /// The value of an array's counter in one object. `index` is the object's index among the last `count` objects.
    fn counter(&self, counter: &Counter, base: usize, index: usize, count: usize) -> Result<i64> {
        let bytes = &self.slots[base + counter.slot].bytes;
        let size = counter.number.size();
        let start = bytes.len().checked_sub(size * (count - index));
        let value = start.and_then(|start| whole_number(counter.number, &bytes[start..start + size]));
        value.map(|value| value.max(0)).ok_or_else(|| self.damaged("the counter of an array is missing"))
    }

    /// Read arrays of objects after one shared header (kStreamLoop).
    fn repeated(&mut self, repeated: &Loop, base: usize, count: usize) -> Result<usize> {
        let header = self.version_header()?;
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
                        return Err(self.damaged("the number of objects is unknown because they have no bytes"));
                    }
                    elements += 1;
                }
                self.push_list(base + repeated.list, elements);
            }
            (None, None) => return Err(self.damaged("an array of objects has no byte count")),
            _ => {
                return Err(FormatError::unsupported(
                    "arrays of objects with lengths in another branch are not supported",
                ))
            }
        }
        self.finish(header, "an array of objects")?;
        Ok(count)
    }

    pub(super) fn convert(&mut self, convert: &Convert, base: usize) -> Result<()> {
        let stored = self.cursor.take(convert.stored.stored_size().saturating_mul(convert.count))?;
        convert.append(stored, &mut self.slots[base + convert.slot].bytes);
        Ok(())
    }

    /// Read a TObjArray, TList or TMap.
    fn pointers(&mut self, pointers: &Pointers, base: usize) -> Result<()> {
        let Pointers { list, kind, slots, name } = pointers;
        let header = self.version_header()?;
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
                self.cursor.string_bytes()?; // option string of the TList entry
            }
        }
        self.push_list(base + list, count);
        self.finish(header, "a ROOT container")
    }
}

fn undescribed_enumeration(name: &str) -> FormatError {
    FormatError::unsupported(format!("the file does not describe the integer type of enumeration {name}"))
}

fn undescribed(class_name: &str) -> FormatError {
    FormatError::unsupported(format!("an object has class {class_name}, which the file does not describe"))
}
