//! Walks over the streamed TTree with its branches and leaves, and collects their wanted members.

use std::collections::HashMap;
use std::rc::Rc;

use crate::buffer::{ObjectBuffer, Pointer};
use crate::cursor::VersionHeader;
use crate::error::{FormatError, Result};
use crate::number::Number;
use crate::streamer::ClassInfos;

use super::embedded::{read_embedded, EmbeddedBasket};
use super::members::{LinkField, Members, Numbers, PointersField, TextField, Wanted};
use super::program::{ClassId, Programs, Step};

/// Branches within branches, and classes within classes, deeper than this are taken for a loop.
const DEPTH_MAX: usize = 200;
/// Bytes of a branch or of its leaf in a buffer are at least about so many.
const OBJECT_BYTES: usize = 512;
/// TBranch versions up to this one were streamed by hand (TBranch::Streamer).
const BRANCH_BY_HAND: i16 = 9;
/// TTree versions up to this one were streamed by hand (TTree::Streamer).
const TREE_BY_HAND: i16 = 4;
/// The larger of the two.
const BY_HAND_MAX: i16 = BRANCH_BY_HAND;

/// The objects of a tree by their number in the buffer, which is their place in it: each has a larger number than those
/// before.
#[derive(Debug)]
pub struct Objects<'a> {
    ids: Vec<u64>,
    members: Vec<Members<'a>>,
    baskets: HashMap<u64, EmbeddedBasket>,
}

impl<'a> Objects<'a> {
    /// None yet of a buffer of so many bytes.
    fn of_buffer(bytes: usize) -> Self {
        let expected = bytes / OBJECT_BYTES;
        Self { ids: Vec::with_capacity(expected), members: Vec::with_capacity(expected), baskets: HashMap::new() }
    }

    /// How many there are; they are counted from 0 in the order of the buffer.
    pub fn count(&self) -> usize {
        self.ids.len()
    }

    /// Which object has this number, if it is there.
    pub fn find(&self, id: u64) -> Option<usize> {
        self.ids.binary_search(&id).ok()
    }

    /// An object.
    pub fn at(&mut self, index: usize) -> &mut Members<'a> {
        &mut self.members[index]
    }

    /// Keeps a place for the next object, whose members come when those of the objects in it have come.
    fn announce(&mut self, id: u64) -> Result<usize> {
        if self.ids.last().is_some_and(|last| *last >= id) {
            return Err(FormatError::damaged(id, "an object lies before the one that came before it"));
        }
        self.ids.push(id);
        self.members.push(Members::default());
        Ok(self.ids.len() - 1)
    }
}

/// Reads the plain bytes of a TTree record.
pub fn walk_tree<'a>(
    bytes: &'a [u8],
    key_size: u64,
    class_name: &str,
    infos: &ClassInfos,
) -> Result<(Members<'a>, Objects<'a>)> {
    let mut walker = Walker {
        buffer: ObjectBuffer::new(bytes, key_size),
        programs: Programs::new(infos),
        objects: Objects::of_buffer(bytes.len()),
        depth: 0,
    };
    let mut tree = Members::of_class(class_name.into());
    walker.read_class(class_name, &mut tree)?;
    Ok((tree, walker.objects))
}

/// The walk over the buffer `'b`; `old_versions` has the classes that were streamed by hand.
pub(super) struct Walker<'b, 'i> {
    pub(super) buffer: ObjectBuffer<'b>,
    programs: Programs<'i>,
    objects: Objects<'b>,
    depth: usize,
}

impl<'b> Walker<'b, '_> {
    /// Reads an object of this class from its version header on.
    pub(super) fn read_class(&mut self, class_name: &str, into: &mut Members<'b>) -> Result<()> {
        let class = self.programs.class(class_name);
        self.read_object(class, into)
    }

    fn read_object(&mut self, class: ClassId, into: &mut Members<'b>) -> Result<()> {
        if self.depth >= DEPTH_MAX {
            return Err(FormatError::damaged(self.buffer.cursor.position() as u64, "objects are nested in a loop"));
        }
        self.depth += 1;
        let header = self.buffer.cursor.version_header()?;
        let result = self.read_body(class, header, into).and_then(|()| self.buffer.cursor.finish(header));
        self.depth -= 1;
        result.map_err(|error| if self.depth == 0 { error.in_object(self.programs.name(class)) } else { error })
    }

    fn read_body(&mut self, class: ClassId, header: VersionHeader, into: &mut Members<'b>) -> Result<()> {
        if header.version <= BY_HAND_MAX {
            match &**self.programs.name(class) {
                "TBranch" if header.version <= BRANCH_BY_HAND => return self.read_old_branch(header.version, into),
                "TTree" if header.version <= TREE_BY_HAND => return self.read_old_tree(into),
                _ => {}
            }
        }
        if header.version <= 0 && header.end.is_some() {
            self.buffer.cursor.skip(4)?; // the checksum of a foreign class
        }
        match self.programs.get(class, i32::from(header.version))? {
            Some(program) => self.run(program.steps(header.end.is_some()), into),
            None if header.end.is_some() => Ok(()), // nothing of it is wanted
            None => Err(FormatError::unsupported(format!(
                "class {} version {} is not described in the file",
                self.programs.name(class),
                header.version
            ))),
        }
    }

    fn run(&mut self, steps: &[Step], into: &mut Members<'b>) -> Result<()> {
        for step in steps {
            match step {
                Step::Skip(size) => self.buffer.cursor.skip(*size)?,
                Step::SkipString => self.buffer.cursor.string_bytes().map(|_| ())?,
                Step::SkipObject => self.skip_object()?,
                Step::SkipNumbers(size) => {
                    let count = i64::from(self.buffer.cursor.i32()?);
                    let count = self.buffer.cursor.checked_count(count, *size)?;
                    self.buffer.cursor.skip(count * size)?;
                }
                Step::SkipPointer => self.pointer().map(|_| ())?,
                Step::SkipArray(size, count) => {
                    if let Some(count) = self.array_count(into.number(*count), *size)? {
                        self.buffer.cursor.skip(count * size)?;
                    }
                }
                Step::TObject => self.buffer.skip_tobject()?,
                Step::Base(class) => self.read_object(*class, into)?,
                Step::Value(Wanted::Number(which), basic) => {
                    let value = basic.read(&mut self.buffer.cursor)?;
                    into.set_number(*which, value);
                }
                Step::Text(Wanted::Text(which)) => {
                    let text = self.buffer.cursor.string_bytes()?;
                    into.set_text(*which, text);
                }
                Step::Array(Wanted::Array(which), basic, count) => {
                    let values = self.array(into.number(*count), *basic)?;
                    into.set_array(*which, values);
                }
                Step::Pointers(Wanted::Pointers(which)) => self.pointers(*which, into)?,
                Step::Link(Wanted::Link(which)) => self.link(*which, into)?,
                Step::Value(..) | Step::Text(_) | Step::Array(..) | Step::Pointers(_) | Step::Link(_) => {
                    return Err(FormatError::unsupported("a member of an unexpected type"));
                }
            }
        }
        Ok(())
    }

    fn skip_object(&mut self) -> Result<()> {
        let header = self.buffer.cursor.version_header()?;
        if header.end.is_none() {
            let position = self.buffer.cursor.position() as u64;
            return Err(FormatError::damaged(position, "an object has no recorded length"));
        }
        self.buffer.cursor.finish(header)
    }

    /// A variable array begins with one byte: 0 for an absent one. Returns how many elements follow.
    pub(super) fn array_count(&mut self, count: i64, element_size: usize) -> Result<Option<usize>> {
        let present = self.buffer.cursor.u8()?;
        if present == 0 {
            return Ok(None);
        }
        self.buffer.cursor.checked_count(count, element_size).map(Some)
    }

    fn array(&mut self, count: i64, number: Number) -> Result<Numbers<'b>> {
        let Some(count) = self.array_count(count, number.size())? else { return Ok(Numbers::default()) };
        Ok(Numbers::new(self.buffer.cursor.take(count * number.size())?, number))
    }

    /// Reads a TObjArray of branches, leaves or baskets.
    pub(super) fn pointers(&mut self, which: PointersField, into: &mut Members<'b>) -> Result<()> {
        let (header, count) = self.buffer.tobjarray()?;
        let mut ids = Vec::new();
        for index in 0..count {
            let Some(id) = self.pointer()? else { continue };
            if which == PointersField::Baskets {
                if let Some(basket) = self.objects.baskets.remove(&id) {
                    into.embedded.push((index, basket));
                }
            } else {
                ids.push(id);
            }
        }
        into.set_pointers(which, ids);
        self.buffer.cursor.finish(header)
    }

    /// Reads one wanted pointer.
    pub(super) fn link(&mut self, which: LinkField, into: &mut Members<'b>) -> Result<()> {
        let id = self.pointer()?;
        into.set_link(which, id.unwrap_or(0));
        Ok(())
    }

    /// Reads a pointer and, if it is new and of a class that matters, its object. Returns its number.
    pub(super) fn pointer(&mut self) -> Result<Option<u64>> {
        let (id, class_name, end) = match self.buffer.pointer()? {
            Pointer::Null => return Ok(None),
            Pointer::Seen(id) => return Ok(Some(id)),
            Pointer::New { id, class_name, end } => (id, class_name, end),
        };
        if &*class_name == "TBasket" {
            let basket = read_embedded(&mut self.buffer.cursor)?;
            self.objects.baskets.insert(id, basket);
        } else if class_name.starts_with("TBranch") || class_name.starts_with("TLeaf") {
            let index = self.objects.announce(id)?;
            let mut members = Members::of_class(Rc::clone(&class_name));
            self.read_class(&class_name, &mut members).map_err(|error| {
                let name = members.text(TextField::Name);
                error.in_object(format!("{class_name} {name}"))
            })?;
            *self.objects.at(index) = members;
        } else if end.is_none() {
            let position = self.buffer.cursor.position() as u64;
            return Err(FormatError::damaged(position, format!("a {class_name} without recorded length")));
        }
        self.buffer.finish_pointer(end)?;
        Ok(Some(id))
    }
}
