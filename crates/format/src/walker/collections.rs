//! ROOT's own containers, whose streamed format is the same in all files.

use crate::cursor::VersionHeader;
use crate::error::{FormatError, Result};
use crate::numbers::number::Number;

use super::walk::{Value, Visitor, Walker};

/// Maximum number of pointers to reserve memory for. Most arrays are short, and a damaged file may declare long arrays
/// that are nested in each other.
const LINKS_RESERVED_MAX: usize = 16;

impl<'b, V: Visitor<'b>> Walker<'b, '_, V> {
    /// Skip a TArray: the number of elements, then the elements (TArrayD::Streamer).
    pub(super) fn numbers(&mut self, number: Number) -> Result<()> {
        let cursor = &mut self.buffer.cursor;
        let count = i64::from(cursor.i32()?);
        let count = cursor.checked_count(count, number.size())?;
        cursor.skip(count * number.size())
    }

    /// Walk through a TList: a TObject, a name, and pointers that are each followed by an option string
    /// (TList::Streamer).
    pub(super) fn list(&mut self) -> Result<()> {
        let header = self.begin()?;
        if header.version <= 3 {
            return Err(FormatError::unsupported(format!("version {} of TList is not supported", header.version)));
        }
        self.buffer.skip_tobject()?;
        self.buffer.cursor.string_bytes()?;
        let count = i64::from(self.buffer.cursor.i32()?);
        for _ in 0..self.buffer.cursor.checked_count(count, 5)? {
            self.pointer()?;
            self.buffer.cursor.string_bytes()?;
        }
        self.end(header, false)
    }

    /// Read the header of a TObjArray, TMap or TClonesArray. It includes a name since version 2 and a TObject since
    /// version 3.
    fn collection_head(&mut self) -> Result<VersionHeader> {
        let header = self.begin()?;
        if header.version > 2 {
            self.buffer.skip_tobject()?;
        }
        if header.version > 1 {
            self.buffer.cursor.string_bytes()?;
        }
        Ok(header)
    }

    /// Walk through a TObjArray (TObjArray::Streamer). Returns the IDs of the objects that the pointers refer to.
    pub(super) fn pointer_array(&mut self) -> Result<Value<'b>> {
        let header = self.collection_head()?;
        let start = self.position();
        let count = i64::from(self.buffer.cursor.i32()?);
        let _lower_bound = self.buffer.cursor.i32()?;
        let count = self.buffer.cursor.checked_count(count, 4)?;
        let begun = self.visitor.array_begins(start..self.buffer.cursor.position());
        let mut links = Vec::with_capacity(count.min(LINKS_RESERVED_MAX));
        for _ in 0..count {
            links.push(self.pointer()?);
            self.visitor.array_pointer_ends(begun, self.buffer.cursor.position());
        }
        self.end(header, false)?;
        Ok(Value::Links(links))
    }

    /// Skip a TObjString (TObjString::Streamer). Files often do not describe this class.
    pub(super) fn text_object(&mut self) -> Result<()> {
        let header = self.begin()?;
        self.buffer.skip_tobject()?;
        self.buffer.cursor.string_bytes()?;
        self.end(header, false)
    }

    /// Walk through a TMap, which consists of pairs of pointers (TMap::Streamer).
    pub(super) fn map(&mut self) -> Result<()> {
        let header = self.collection_head()?;
        let count = i64::from(self.buffer.cursor.i32()?);
        for _ in 0..2 * self.buffer.cursor.checked_count(count, 8)? {
            self.pointer()?;
        }
        self.end(header, false)
    }

    /// Read an empty TClonesArray (TClonesArray::Streamer). Fails if the array has elements, which are not supported.
    pub(super) fn clones(&mut self) -> Result<()> {
        let header = self.collection_head()?;
        self.buffer.cursor.string_bytes()?; // class and version
        let count = self.buffer.cursor.i32()?;
        let _lower_bound = self.buffer.cursor.i32()?;
        if count != 0 {
            return Err(FormatError::unsupported("only empty TClonesArrays are supported here"));
        }
        self.end(header, false)
    }
}
