//! Pointers between the objects of an entry (TBufferFile::ReadObjectAny): classes by name, objects by position.

use std::sync::Arc;

use crate::error::{FormatError, Result};
use crate::layout::program::ClassProgram;
use crate::layout::steps::Step;
use crate::marks::{BYTE_COUNT_MASK, CLASS_MASK, MAP_OFFSET, NEW_CLASS_TAG};

use super::entry_pointers::KnownClass;
use super::expansion::{ROUND_BYTES, SLOT_BYTES};
use super::machine::{Machine, MEMBERWISE_VERSION_MIN};
use super::slot::{add_slots, Instance, INSTANCES_MAX, NULL_TAG};

/// Reference to the object that forms the whole entry.
const WHOLE_OBJECT: u32 = 1;
/// TClonesArray::kBypassStreamer: bit that means that the elements are stored memberwise.
const BYPASS_STREAMER: u32 = 1 << 12;
/// Value of TClonesArray::kBypassStreamer up to class version 3.
const BYPASS_STREAMER_OLD: u32 = 1 << 14;

/// Parsed tag of a pointer.
enum Tag {
    Null,
    /// Reference to an earlier object.
    Seen(u32),
    /// A new object: its class, and its end if the object has a byte count.
    New(KnownClass, Option<usize>),
}

impl Machine<'_> {
    /// Read a pointer and the object that it refers to.
    pub(super) fn pointer(&mut self, slot: usize) -> Result<()> {
        let start = self.cursor.position();
        match self.tag()? {
            Tag::Null => self.push_null(slot),
            Tag::Seen(number) => return self.seen(number, slot),
            Tag::New(known, end) => {
                self.entry.open.push(start);
                let read = match (&known.class.unread, end) {
                    (Some(error), Some(end)) => self.unread(&known, &error.to_string(), slot, end),
                    _ => self.pointed(&known, slot).and_then(|()| self.ends_at(&known, end)),
                };
                self.entry.open.pop();
                if read.is_err() && end.is_some() {
                    self.failed.get_or_insert_with(|| known.class.name.clone());
                }
                read?;
            }
        }
        Ok(())
    }

    fn ends_at(&self, known: &KnownClass, end: Option<usize>) -> Result<()> {
        let found = self.cursor.position();
        match end {
            Some(end) if end != found => {
                let name = &known.class.name;
                Err(self
                    .damaged(format!("the object of class {name} ends at {found}, but its byte count ends at {end}")))
            }
            _ => Ok(()),
        }
    }

    /// Skip an object that cannot be read, and store the reason in its place.
    fn unread(&mut self, known: &KnownClass, reason: &str, slot: usize, end: usize) -> Result<()> {
        let base = self.instance(known, slot)?;
        self.count_expansion(reason.len())?;
        self.push_text(base, reason.as_bytes());
        self.stepped_over.get_or_insert_with(|| format!("{} was skipped because {reason}, and", known.class.name));
        self.cursor.skip_to(end)
    }

    /// Skip objects of this class from now on. Only objects with a byte count can be skipped.
    pub(super) fn leave_out(&mut self, class_name: &str, error: FormatError) {
        let class = Arc::new(ClassProgram::unread(class_name, error));
        let steps = class.steps();
        self.known.insert(class_name.as_bytes().to_vec(), KnownClass { class, steps });
    }

    fn push_null(&mut self, slot: usize) {
        self.slots[slot].bytes.push(NULL_TAG);
    }

    fn tag(&mut self) -> Result<Tag> {
        let start = self.cursor.position();
        let first = self.cursor.u32()?;
        let (tag_at, tag, end) = if first & BYTE_COUNT_MASK == 0 || first == NEW_CLASS_TAG {
            (start, first, None)
        } else {
            let size = (first & !BYTE_COUNT_MASK) as usize;
            if size > self.cursor.remaining() {
                return Err(FormatError::damaged(
                    start as u64,
                    format!("an object of {size} bytes exceeds its buffer"),
                ));
            }
            let tag_at = self.cursor.position();
            (tag_at, self.cursor.u32()?, Some(tag_at + size))
        };
        if tag & CLASS_MASK == 0 {
            if let Some(end) = end {
                self.cursor.skip_to(end)?;
            }
            if tag != 0 && tag != WHOLE_OBJECT {
                self.entry.refers_at(tag_at);
            }
            return Ok(if tag == 0 { Tag::Null } else { Tag::Seen(tag) });
        }
        let number = tag_at as u64 + self.key_size + MAP_OFFSET;
        if tag == NEW_CLASS_TAG {
            let known = self.class_named_here()?;
            self.entry.classes.push((number, known.clone()));
            return Ok(Tag::New(known, end));
        }
        self.entry.refers_at(tag_at);
        let wanted = u64::from(tag & !CLASS_MASK);
        let found = self.entry.classes.iter().rev().find(|(number, _)| *number == wanted);
        let known = found.map(|(_, known)| known.clone());
        let known =
            known.ok_or_else(|| FormatError::damaged(tag_at as u64, format!("unknown class reference {wanted}")))?;
        Ok(Tag::New(known, end))
    }

    /// Read a null-terminated class name and return the class.
    fn class_named_here(&mut self) -> Result<KnownClass> {
        let Some(size) = self.cursor.rest().iter().position(|byte| *byte == 0) else {
            return Err(self.damaged("the name of a class is not terminated"));
        };
        let name = self.cursor.take(size)?;
        self.cursor.skip(1)?;
        self.class_named(name)
    }

    fn class_named(&mut self, name: &[u8]) -> Result<KnownClass> {
        if let Some(known) = self.known.get(name) {
            return Ok(known.clone());
        }
        let class = self.classes.get(&String::from_utf8_lossy(name))?;
        let steps = class.steps();
        let known = KnownClass { class, steps };
        self.known.insert(name.to_vec(), known.clone());
        Ok(known)
    }

    /// Read an object that a pointer refers to, after the tag of the pointer.
    fn pointed(&mut self, known: &KnownClass, slot: usize) -> Result<()> {
        check_readable(known)?;
        let base = self.instance(known, slot)?;
        self.run(&known.steps, base, 1)
    }

    /// Append an object of class `known` to a slot of pointers. Returns the index of the first slot for such objects.
    fn instance(&mut self, known: &KnownClass, slot: usize) -> Result<usize> {
        let instances = &mut self.slots[slot].instances;
        let found = instances.iter().position(|one| Arc::ptr_eq(&one.class, &known.class));
        let index = match found {
            Some(index) => index,
            None if instances.len() >= INSTANCES_MAX => {
                let message = format!("pointers of one member refer to objects of more than {INSTANCES_MAX} classes");
                return Err(FormatError::unsupported(message));
            }
            None => {
                let base = self.slots.len();
                self.count_expansion(SLOT_BYTES.saturating_mul(known.class.has_offsets.len() + 1))?;
                add_slots(&mut self.slots, &known.class.has_offsets);
                let instances = &mut self.slots[slot].instances;
                instances.push(Instance { class: Arc::clone(&known.class), base, count: 0 });
                instances.len() - 1
            }
        };
        let place = &mut self.slots[slot];
        place.bytes.push(index as u8);
        place.instances[index].count += 1;
        Ok(place.instances[index].base)
    }

    /// Read an earlier object again. A pointer to an object that is still being read becomes null, because following it
    /// would nest columns without end.
    fn seen(&mut self, number: u32, slot: usize) -> Result<()> {
        let place = u64::from(number).checked_sub(self.key_size + MAP_OFFSET).map(|place| place as usize);
        let is_open = place.is_some_and(|place| self.entry.open.contains(&place));
        // If only the positions of references are requested, the positions inside that object are already known.
        if number == WHOLE_OBJECT || is_open || self.entry.references.is_some() {
            self.push_null(slot);
            return Ok(());
        }
        let here = self.cursor.position();
        let Some(place) = place.filter(|place| *place < here) else {
            return Err(self.damaged(format!("unknown object reference {number}")));
        };
        self.go_to(place);
        self.deeper(|machine| machine.pointer(slot))?;
        let size = self.cursor.position() - place;
        match self.entry.read_again_max.checked_sub(size) {
            Some(rest) => self.entry.read_again_max = rest,
            None => return Err(self.damaged("objects refer to each other too often")),
        }
        self.go_to(here);
        Ok(())
    }

    /// Read an object of a recursive class.
    pub(super) fn nested(&mut self, slot: usize, class_name: &str) -> Result<()> {
        let known = self.class_named(class_name.as_bytes())?;
        self.pointed(&known, slot)
    }

    /// Read memberwise collections of a recursive class: `each` collections per object. The class version is stored
    /// once, before all collections.
    pub(super) fn nested_memberwise(
        &mut self,
        (list, slot): (usize, usize),
        class_name: &str,
        version: i16,
        count: usize,
        each: usize,
    ) -> Result<usize> {
        let known = self.class_named(class_name.as_bytes())?;
        check_readable(&known)?;
        let Some(object) = known.class.memberwise() else {
            return Err(self.damaged(format!("objects of class {class_name} cannot be streamed memberwise")));
        };
        let usual = object.versions.first();
        let of_class = if version >= MEMBERWISE_VERSION_MIN { self.members_version(object)? } else { usual };
        let members = of_class.map_or(&[][..], |version| &version.members);
        let one = |machine: &mut Self| {
            let elements = machine.count(1)?;
            machine.push_list(list, elements);
            match elements {
                0 => Ok(()),
                _ => machine.all_members(&known, members, elements, slot),
            }
        };
        self.each(count, |machine| machine.times(each, one))
    }

    /// Read the length of a class name, the null-terminated name, and an object of that class
    /// (TLeafObject::FillBasket).
    pub(super) fn named_object(&mut self, slot: usize) -> Result<()> {
        if self.cursor.remaining() == 0 {
            self.push_null(slot);
            return Ok(());
        }
        let size = usize::from(self.cursor.u8()?);
        let name = self.cursor.take(size)?;
        self.cursor.skip(1)?;
        let known = self.class_named(name)?;
        self.pointed(&known, slot)
    }

    /// Read a TClonesArray that is not split into branches (TClonesArray::Streamer).
    pub(super) fn clones(&mut self, list: usize, slot: usize) -> Result<()> {
        let header = self.version_header()?;
        let bits = if header.version > 2 { self.tobject()?.bits } else { 0 };
        if header.version > 1 {
            self.cursor.string_bytes()?;
        }
        let class_and_version = self.cursor.string_bytes()?;
        let mut parts = class_and_version.splitn(2, |letter| *letter == b';');
        let class_name = parts.next().unwrap_or_default();
        let version = parts.next().and_then(|text| std::str::from_utf8(text).ok()?.trim().parse().ok());
        let count = i64::from(self.cursor.i32()?).saturating_abs();
        let _lower_bound = self.cursor.i32()?;
        let count = self.cursor.checked_count(count, 1)?;
        let bypasses = bits & BYPASS_STREAMER != 0 || (header.version == 3 && bits & BYPASS_STREAMER_OLD != 0);
        self.push_list(list, count);
        if count > 0 {
            let known = self.class_named(class_name)?;
            if bypasses {
                self.clones_memberwise(&known, version, count, slot)?;
            } else {
                for _ in 0..count {
                    match self.cursor.u8()? {
                        0 => self.push_null(slot),
                        _ => self.pointed(&known, slot)?,
                    }
                }
            }
        } else if let Some(end) = header.end {
            self.cursor.skip_to(end)?; // even an empty array may store the headers of container members
        }
        self.finish(header, "TClonesArray")
    }

    fn clones_memberwise(&mut self, known: &KnownClass, version: Option<i32>, count: usize, slot: usize) -> Result<()> {
        check_readable(known)?;
        let Some(class) = known.class.memberwise() else {
            return Err(self.damaged(format!("objects of class {} cannot be streamed memberwise", known.class.name)));
        };
        let members = class.versions.iter().find(|one| Some(one.version) == version).or(class.versions.first());
        let members = members.map_or(&[][..], |version| &version.members);
        self.all_members(known, members, count, slot)
    }

    /// Read memberwise objects, which store one member of all objects before the next member.
    fn all_members(&mut self, known: &KnownClass, members: &[Step], count: usize, slot: usize) -> Result<()> {
        let start = self.cursor.position();
        let mut base = 0;
        for _ in 0..count {
            base = self.instance(known, slot)?;
        }
        self.run(members, base, count)?;
        let read = self.cursor.position().saturating_sub(start);
        self.count_expansion(count.saturating_sub(read).saturating_mul(ROUND_BYTES))
    }
}

/// Fail with the reason if a class could not be compiled.
fn check_readable(known: &KnownClass) -> Result<()> {
    match &known.class.unread {
        Some(error) => Err(error.clone()),
        None => Ok(()),
    }
}
