//! Walks over the streamed TTree with its branches and leaves, and collects their wanted members.

use std::collections::HashMap;

use crate::buffer::{ObjectBuffer, Pointer};
use crate::cursor::VersionHeader;
use crate::error::{FormatError, Result};
use crate::streamer::ClassInfos;

use super::embedded::read_embedded;
use super::legacy;
use super::members::{Link, Members, Number, NumberArray, Pointers, Text, Wanted};
use super::program::{Basic, Programs, Step};

/// Branches within branches, and classes within classes, deeper than this are taken for a loop.
const DEPTH_MAX: usize = 200;
/// TBranch versions up to this one were streamed by hand (TBranch::Streamer).
const BRANCH_BY_HAND: i16 = 9;
/// TTree versions up to this one were streamed by hand (TTree::Streamer).
const TREE_BY_HAND: i16 = 4;

/// The objects of a tree by the number under which the buffer knows them.
#[derive(Debug, Default)]
pub struct Objects {
    by_id: HashMap<u64, Members>,
    baskets: HashMap<u64, super::embedded::EmbeddedBasket>,
}

impl Objects {
    /// An object, if it is there.
    pub fn get(&self, id: u64) -> Option<&Members> {
        self.by_id.get(&id)
    }

    /// Takes an object out.
    pub fn get_mut(&mut self, id: u64) -> Option<&mut Members> {
        self.by_id.get_mut(&id)
    }
}

/// Reads the plain bytes of a TTree record.
pub fn walk_tree(bytes: &[u8], key_size: u64, class_name: &str, infos: &ClassInfos) -> Result<(Members, Objects)> {
    let mut walker = Walker {
        buffer: ObjectBuffer::new(bytes, key_size),
        programs: Programs::new(infos),
        objects: Objects::default(),
        depth: 0,
    };
    let mut tree = Members::of_class(class_name);
    walker.read_class(class_name, &mut tree)?;
    Ok((tree, walker.objects))
}

/// The walk in progress; `legacy` continues it for classes that were streamed by hand.
pub(super) struct Walker<'a> {
    pub(super) buffer: ObjectBuffer<'a>,
    programs: Programs<'a>,
    objects: Objects,
    depth: usize,
}

impl Walker<'_> {
    /// Reads an object of this class from its version header on.
    pub(super) fn read_class(&mut self, class_name: &str, into: &mut Members) -> Result<()> {
        if self.depth >= DEPTH_MAX {
            return Err(FormatError::damaged(self.buffer.cursor.position() as u64, "objects are nested in a loop"));
        }
        self.depth += 1;
        let header = self.buffer.cursor.version_header()?;
        let result = self.read_body(class_name, header, into).and_then(|()| self.buffer.cursor.finish(header));
        self.depth -= 1;
        result.map_err(|error| if self.depth == 0 { error.in_object(class_name) } else { error })
    }

    fn read_body(&mut self, class_name: &str, header: VersionHeader, into: &mut Members) -> Result<()> {
        match class_name {
            "TBranch" if header.version <= BRANCH_BY_HAND => return legacy::read_branch(self, header.version, into),
            "TTree" if header.version <= TREE_BY_HAND => return legacy::read_tree(self, into),
            _ => {}
        }
        if header.version <= 0 && header.end.is_some() {
            self.buffer.cursor.skip(4)?; // the checksum of a foreign class
        }
        match self.programs.get(class_name, i32::from(header.version))? {
            Some(program) => self.run(program.steps(header.end.is_some()), into),
            None if header.end.is_some() => Ok(()), // nothing of it is wanted
            None => Err(FormatError::unsupported(format!(
                "class {class_name} version {} is not described in the file",
                header.version
            ))),
        }
    }

    fn run(&mut self, steps: &[Step], into: &mut Members) -> Result<()> {
        for step in steps {
            match step {
                Step::Skip(size) => self.buffer.cursor.skip(*size)?,
                Step::SkipString => self.buffer.cursor.string_bytes().map(|_| ())?,
                Step::SkipObject => self.skip_object()?,
                Step::SkipPointer => self.pointer().map(|_| ())?,
                Step::SkipArray(size, count) => {
                    if let Some(count) = self.array_count(into.number(*count), *size)? {
                        self.buffer.cursor.skip(count * size)?;
                    }
                }
                Step::TObject => self.buffer.skip_tobject()?,
                Step::Base(class_name) => self.read_class(class_name, into)?,
                Step::Value(Wanted::Number(which), basic) => {
                    let value = self.basic(*basic)?;
                    into.set_number(*which, value);
                }
                Step::Text(Wanted::Text(which)) => {
                    let text = self.buffer.cursor.string()?;
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

    fn basic(&mut self, basic: Basic) -> Result<i64> {
        let cursor = &mut self.buffer.cursor;
        Ok(match basic {
            Basic::I8 => i64::from(cursor.i8()?),
            Basic::U8 => i64::from(cursor.u8()?),
            Basic::I16 => i64::from(cursor.i16()?),
            Basic::U16 => i64::from(cursor.u16()?),
            Basic::I32 => i64::from(cursor.i32()?),
            Basic::U32 => i64::from(cursor.u32()?),
            Basic::I64 => cursor.i64()?,
            Basic::F32 => cursor.f32()? as i64,
            Basic::F64 => cursor.f64()? as i64,
        })
    }

    /// A variable array begins with one byte: 0 for an absent one. Answers with how many elements follow.
    pub(super) fn array_count(&mut self, count: i64, element_size: usize) -> Result<Option<usize>> {
        let present = self.buffer.cursor.u8()?;
        if present == 0 {
            return Ok(None);
        }
        self.buffer.cursor.checked_count(count, element_size).map(Some)
    }

    fn array(&mut self, count: i64, basic: Basic) -> Result<Vec<i64>> {
        let Some(count) = self.array_count(count, basic.size())? else { return Ok(Vec::new()) };
        (0..count).map(|_| self.basic(basic)).collect()
    }

    /// Reads a TObjArray of branches, leaves or baskets.
    pub(super) fn pointers(&mut self, which: Pointers, into: &mut Members) -> Result<()> {
        let (header, count) = self.buffer.tobjarray()?;
        let mut ids = Vec::new();
        for index in 0..count {
            let Some(id) = self.pointer()? else { continue };
            if which == Pointers::Baskets {
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
    pub(super) fn link(&mut self, which: Link, into: &mut Members) -> Result<()> {
        let id = self.pointer()?;
        into.set_link(which, id.unwrap_or(0));
        Ok(())
    }

    /// Reads a pointer and, if it is new and of a class that matters, its object. Answers with its number.
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
            let mut members = Members::of_class(&class_name);
            self.read_class(&class_name, &mut members).map_err(|error| {
                let name = members.text(Text::Name);
                error.in_object(format!("{class_name} {name}"))
            })?;
            self.objects.by_id.insert(id, members);
        } else if end.is_none() {
            let position = self.buffer.cursor.position() as u64;
            return Err(FormatError::damaged(position, format!("a {class_name} without recorded length")));
        }
        self.buffer.finish_pointer(end)?;
        Ok(Some(id))
    }

    /// Sets the arrays of a branch that was streamed by hand.
    pub(super) fn set_baskets(into: &mut Members, bytes: Vec<i64>, entry: Vec<i64>, seek: Vec<i64>) {
        into.set_number(Number::MaxBaskets, bytes.len() as i64);
        into.set_array(NumberArray::Sizes, bytes);
        into.set_array(NumberArray::FirstEntries, entry);
        into.set_array(NumberArray::Seeks, seek);
    }
}
