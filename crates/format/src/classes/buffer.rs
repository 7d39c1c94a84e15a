//! Objects in a TBuffer: class tags, object references and containers (TBufferFile::ReadObjectAny).
//!
//! ```
//! use branchline_format::classes::buffer::{ObjectBuffer, Pointer};
//!
//! let mut buffer = ObjectBuffer::new(&[0, 0, 0, 0], 0);
//! assert_eq!(buffer.pointer(), Ok(Pointer::Null));
//! assert!(buffer.pointer().is_err(), "the bytes end here");
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cursor::Cursor;
use crate::error::{FormatError, Result};
use crate::marks::{BYTE_COUNT_MASK, CLASS_MASK, IS_REFERENCED, MAP_OFFSET, NEW_CLASS_TAG, VERSION_COUNT_MASK};

/// A pointer in a buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pointer {
    /// Null.
    Null,
    /// A reference to an object read earlier, by the object's ID in the buffer.
    Seen(u64),
    /// A new object, whose bytes follow.
    New {
        /// The object's ID, used by later references.
        id: u64,
        /// The object's class.
        class_name: Arc<str>,
        /// End of the object in the buffer; None if no byte count precedes the object.
        end: Option<usize>,
    },
}

/// The members of a TNamed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameAndTitle {
    /// TNamed::fName.
    pub name: String,
    /// TNamed::fTitle.
    pub title: String,
}

/// A cursor over the uncompressed bytes of an object, with the class names read from earlier tags.
#[derive(Debug, Clone)]
pub struct ObjectBuffer<'a> {
    /// The current read position.
    pub cursor: Cursor<'a>,
    /// Size of the key before the object. References are relative to the start of the key.
    key_size: u64,
    /// Class names by the reference that later tags use. Class names are shared because each branch and leaf of a tree
    /// has a tag, but a tree has only a few classes.
    classes: BTreeMap<u64, Arc<str>>,
}

impl<'a> ObjectBuffer<'a> {
    /// Create a buffer over the uncompressed bytes of an object whose key has `key_size` bytes.
    pub fn new(bytes: &'a [u8], key_size: u64) -> Self {
        Self { cursor: Cursor::new(bytes), key_size, classes: BTreeMap::new() }
    }

    fn reference(&self, position: usize) -> u64 {
        position as u64 + self.key_size + MAP_OFFSET
    }

    /// Parse a pointer and stop at the start of its object (TBufferFile::ReadObjectAny, ReadClass).
    pub fn pointer(&mut self) -> Result<Pointer> {
        let start = self.cursor.position();
        let first = self.cursor.u32()?;
        let (tag_at, tag, end) = if first & BYTE_COUNT_MASK == 0 || first == NEW_CLASS_TAG {
            (start, first, None)
        } else {
            let size = (first & !BYTE_COUNT_MASK) as usize;
            let tag_at = self.cursor.position();
            let end = tag_at.saturating_add(size);
            if size > self.cursor.remaining() {
                return Err(FormatError::damaged(
                    start as u64,
                    format!("an object of {size} bytes exceeds its buffer"),
                ));
            }
            (tag_at, self.cursor.u32()?, Some(end))
        };
        if tag & CLASS_MASK == 0 {
            if let Some(end) = end {
                self.cursor.skip_to(end)?;
            }
            return Ok(if tag == 0 { Pointer::Null } else { Pointer::Seen(u64::from(tag)) });
        }
        let class_name = self.class_of_tag(tag, tag_at)?;
        Ok(Pointer::New { id: self.reference(start), class_name, end })
    }

    fn class_of_tag(&mut self, tag: u32, tag_at: usize) -> Result<Arc<str>> {
        if tag == NEW_CLASS_TAG {
            let class_name: Arc<str> = self.cursor.c_string()?.into();
            self.classes.insert(self.reference(tag_at), Arc::clone(&class_name));
            return Ok(class_name);
        }
        let reference = u64::from(tag & !CLASS_MASK);
        self.classes
            .get(&reference)
            .cloned()
            .ok_or_else(|| FormatError::damaged(tag_at as u64, format!("unknown class reference {reference}")))
    }

    /// Skip a TObject (TObject::Streamer).
    pub fn skip_tobject(&mut self) -> Result<()> {
        let version = self.cursor.i16()?;
        if version & VERSION_COUNT_MASK != 0 {
            self.cursor.skip(4)?; // the "version" was the first half of a byte count
        }
        self.cursor.skip(4)?; // fUniqueID
        let bits = self.cursor.u32()?;
        if bits & IS_REFERENCED != 0 {
            self.cursor.skip(2)?; // process ID for TRefs
        }
        Ok(())
    }

    /// Parse a TNamed (TNamed::Streamer).
    pub fn tnamed(&mut self) -> Result<NameAndTitle> {
        let header = self.cursor.version_header()?;
        self.skip_tobject()?;
        let name = self.cursor.string()?;
        let title = self.cursor.string()?;
        self.cursor.finish(header)?;
        Ok(NameAndTitle { name, title })
    }

    /// Parse the header of a TObjArray and return the number of pointers that follow (TObjArray::Streamer).
    pub fn tobjarray(&mut self) -> Result<usize> {
        let header = self.cursor.version_header()?;
        if header.version > 2 {
            self.skip_tobject()?;
        }
        if header.version > 1 {
            self.cursor.string_bytes()?;
        }
        let count = i64::from(self.cursor.i32()?);
        let _lower_bound = self.cursor.i32()?;
        self.cursor.checked_count(count, 4)
    }

    /// Parse the header of a TList and return the number of pointers that follow. An option string follows each pointer
    /// (TList::Streamer).
    pub fn tlist(&mut self) -> Result<usize> {
        let header = self.cursor.version_header()?;
        if header.version > 3 {
            self.skip_tobject()?;
            self.cursor.string_bytes()?;
        }
        let count = i64::from(self.cursor.i32()?);
        self.cursor.checked_count(count, 4)
    }

    /// Move to the end of an object that was read through a pointer.
    pub fn finish_pointer(&mut self, end: Option<usize>) -> Result<()> {
        match end {
            Some(end) => self.cursor.skip_to(end),
            None => Ok(()),
        }
    }
}
