//! TTreeIndex: the major and minor values of entries, for several consecutive trees.

use crate::cursor::Cursor;
use crate::error::{FormatError, Result};
use crate::marks::{byte_count, NEW_CLASS_TAG};

/// Supported class version of TTreeIndex, which stores minor values separately.
const VERSION: i16 = 2;

/// An index of a tree's entries (TTreeIndex::Streamer).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeIndex {
    /// Bytes after the version and before the names of the expressions.
    base: Vec<u8>,
    major_name: Vec<u8>,
    minor_name: Vec<u8>,
    rows: Vec<IndexRow>,
}

/// An entry with its major and minor values. Rows are sorted by these values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct IndexRow {
    major: i64,
    minor: i64,
    entry: i64,
}

impl TreeIndex {
    /// Parse an index from the bytes that follow its class tag.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes);
        let version = cursor.i16()?;
        if version != VERSION {
            return Err(FormatError::unsupported(format!("version {version} of TTreeIndex is not supported")));
        }
        let start = cursor.position();
        let header = cursor.version_header()?;
        cursor.finish(header)?;
        let base = bytes.get(start..cursor.position()).unwrap_or_default().to_vec();
        let (major_name, minor_name) = (cursor.string_bytes()?.to_vec(), cursor.string_bytes()?.to_vec());
        let count = cursor.i64()?;
        let count = cursor.checked_count(count, 24)?;
        let mut column = || (0..count).map(|_| cursor.i64()).collect::<Result<Vec<i64>>>();
        let (majors, minors, entries) = (column()?, column()?, column()?);
        let numbers = majors.into_iter().zip(minors).zip(entries);
        let rows = numbers.map(|((major, minor), entry)| IndexRow { major, minor, entry });
        Ok(Self { base, major_name, minor_name, rows: rows.collect() })
    }

    /// Append the index of the next tree, whose first entry is `first_entry` (TTreeIndex::Append). None if the indexes
    /// have different expressions.
    pub fn append(&mut self, other: &Self, first_entry: u64) -> Option<()> {
        if (&self.major_name, &self.minor_name) != (&other.major_name, &other.minor_name) {
            return None;
        }
        let first_entry = i64::try_from(first_entry).ok()?;
        let moved = |row: &IndexRow| IndexRow { entry: row.entry.saturating_add(first_entry), ..*row };
        self.rows.extend(other.rows.iter().map(moved));
        Some(())
    }

    /// Encode a pointer to the index, followed by the index.
    pub fn pointed(&self) -> Result<Vec<u8>> {
        let mut rows = self.rows.clone();
        rows.sort_unstable();
        let mut body = VERSION.to_be_bytes().to_vec();
        body.extend_from_slice(&self.base);
        crate::write::key::push_string(&mut body, &self.major_name)?;
        crate::write::key::push_string(&mut body, &self.minor_name)?;
        body.extend((rows.len() as u64).to_be_bytes());
        rows.iter().for_each(|row| body.extend(row.major.to_be_bytes()));
        rows.iter().for_each(|row| body.extend(row.minor.to_be_bytes()));
        rows.iter().for_each(|row| body.extend(row.entry.to_be_bytes()));
        let mut head = NEW_CLASS_TAG.to_be_bytes().to_vec();
        head.extend_from_slice(b"TTreeIndex\0");
        let mut out = Vec::with_capacity(body.len() + 32);
        push_count(&mut out, head.len() + 4 + body.len())?;
        out.extend_from_slice(&head);
        push_count(&mut out, body.len())?;
        out.extend_from_slice(&body);
        Ok(out)
    }
}

fn push_count(out: &mut Vec<u8>, size: usize) -> Result<()> {
    let too_long = || FormatError::unsupported("the tree index exceeds ROOT's limit of 1 GiB");
    out.extend(byte_count(size).ok_or_else(too_long)?.to_be_bytes());
    Ok(())
}
