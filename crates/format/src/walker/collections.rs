//! ROOT's own containers, whose streamers are the same in all files.

use crate::cursor::VersionHeader;
use crate::error::{FormatError, Result};
use crate::numbers::number::Number;

use super::walk::{Value, Visitor, Walker};

/// Room that is reserved for the pointers of an array: most arrays are short, and a damaged file may claim long ones
/// within each other.
const LINKS_RESERVED_MAX: usize = 16;

impl<'b, V: Visitor<'b>> Walker<'b, '_, V> {
    /// A TArray: a count and the numbers (TArrayD::Streamer).
    pub(super) fn numbers(&mut self, number: Number) -> Result<()> {
        let cursor = &mut self.buffer.cursor;
        let count = i64::from(cursor.i32()?);
        let count = cursor.checked_count(count, number.size())?;
        cursor.skip(count * number.size())
    }

    /// TList::Streamer: a TObject, a name, and pointers with an option each.
    pub(super) fn list(&mut self) -> Result<()> {
        let header = self.begin()?;
        if header.version <= 3 {
            return Err(FormatError::unsupported(format!("TList version {}", header.version)));
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

    /// The head of TObjArray, TMap and TClonesArray: since version 3 a TObject, since version 2 a name.
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

    /// TObjArray::Streamer. Returns the numbers of the objects that the pointers refer to.
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

    /// TObjString::Streamer; files often do not describe the class.
    pub(super) fn text_object(&mut self) -> Result<()> {
        let header = self.begin()?;
        self.buffer.skip_tobject()?;
        self.buffer.cursor.string_bytes()?;
        self.end(header, false)
    }

    /// TMap::Streamer: pairs of pointers.
    pub(super) fn map(&mut self) -> Result<()> {
        let header = self.collection_head()?;
        let count = i64::from(self.buffer.cursor.i32()?);
        for _ in 0..2 * self.buffer.cursor.checked_count(count, 8)? {
            self.pointer()?;
        }
        self.end(header, false)
    }

    /// TClonesArray::Streamer, as far as its head: only empty ones are read.
    pub(super) fn clones(&mut self) -> Result<()> {
        let header = self.collection_head()?;
        self.buffer.cursor.string_bytes()?; // class and version
        let count = self.buffer.cursor.i32()?;
        let _lower_bound = self.buffer.cursor.i32()?;
        if count != 0 {
            return Err(FormatError::unsupported("a TClonesArray with objects in it"));
        }
        self.end(header, false)
    }
}
