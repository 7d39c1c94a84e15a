//! TKey: the header of a record, and how it changes when a record is copied to another file.
//!
//! ```
//! use branchline_format::write::key::{push_string, string_size};
//!
//! let mut out = Vec::new();
//! push_string(&mut out, b"events")?;
//! assert_eq!(out, b"\x06events");
//! assert_eq!((string_size(b"events"), string_size(&[b'x'; 300])), (7, 305));
//! # Ok::<(), branchline_format::error::FormatError>(())
//! ```

use crate::error::{FormatError, Result};
use crate::marks::{BIG_VERSION, KEY_VERSION};

/// Maximum file offset of the small format. Larger offsets need the large format of keys and headers
/// (TFile::kStartBigFile).
pub const BIG_FILE_BYTES: u64 = 2_000_000_000;
/// Bit position of the process ID offset in a large key's fSeekPdir. The 16 bits from this position on hold the offset.
const PROCESS_BITS: u32 = 48;

/// A key to be written.
#[derive(Debug, Clone)]
pub struct NewKey<'a> {
    /// Class of the object.
    pub class_name: &'a str,
    /// Name of the object.
    pub name: &'a [u8],
    /// Title of the object.
    pub title: &'a [u8],
    /// Uncompressed size of the object.
    pub object_size: u64,
    /// Size of the object in the file.
    pub stored_size: u64,
    /// Creation time, packed as in TDatime.
    pub date: u32,
    /// Cycle number, which distinguishes keys of the same name.
    pub cycle: i16,
    /// Offset of the record in the file.
    pub seek: u64,
    /// Offset of the directory that contains the key.
    pub seek_directory: u64,
}

impl NewKey<'_> {
    fn is_big(&self) -> bool {
        self.seek > BIG_FILE_BYTES
    }

    /// Size of the encoded key.
    pub fn size(&self) -> u64 {
        let numbers = if self.is_big() { 34 } else { 26 };
        let texts = [self.class_name.as_bytes(), self.name, self.title];
        numbers + texts.iter().map(|text| string_size(text)).sum::<u64>()
    }

    /// Encode the key.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        let (key_size, mut out) = (self.size(), Vec::new());
        push_i32(&mut out, key_size + self.stored_size)?;
        out.extend((KEY_VERSION + if self.is_big() { BIG_VERSION } else { 0 }).to_be_bytes());
        push_i32(&mut out, self.object_size)?;
        out.extend(self.date.to_be_bytes());
        out.extend(u16::try_from(key_size).map_err(|_| too_large("a key", key_size))?.to_be_bytes());
        out.extend(self.cycle.to_be_bytes());
        push_seek(&mut out, self.seek, self.is_big())?;
        push_seek(&mut out, self.seek_directory, self.is_big())?;
        for text in [self.class_name.as_bytes(), self.name, self.title] {
            push_string(&mut out, text)?;
        }
        Ok(out)
    }
}

/// Size of an encoded TString.
pub fn string_size(text: &[u8]) -> u64 {
    text.len() as u64 + if text.len() < 255 { 1 } else { 5 }
}

/// Append an encoded TString.
pub fn push_string(out: &mut Vec<u8>, text: &[u8]) -> Result<()> {
    match u8::try_from(text.len()) {
        Ok(short) if short < 255 => out.push(short),
        _ => {
            out.push(255);
            push_i32(out, text.len() as u64)?;
        }
    }
    out.extend_from_slice(text);
    Ok(())
}

/// Append a file offset: eight bytes if `is_big` is set, otherwise four.
pub fn push_seek(out: &mut Vec<u8>, seek: u64, is_big: bool) -> Result<()> {
    if is_big {
        out.extend(seek.to_be_bytes());
        return Ok(());
    }
    push_i32(out, seek)
}

/// Append a four-byte size. Fails if the size exceeds 31 bits, the limit of ROOT.
pub fn push_i32(out: &mut Vec<u8>, size: u64) -> Result<()> {
    out.extend(i32::try_from(size).map_err(|_| too_large("a number", size))?.to_be_bytes());
    Ok(())
}

fn too_large(what: &str, size: u64) -> FormatError {
    FormatError::unsupported(format!("{what} of {size} exceeds the limit of ROOT files"))
}

/// New location of a copied record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewPlace {
    /// Offset of the record in the file.
    pub seek: u64,
    /// Offset of the directory that contains the key.
    pub seek_directory: u64,
    /// Offset to add to the process IDs of the record's references (TKey::fPidOffset).
    pub process_ids_before: u16,
}

/// Update the location in the key of a basket's record. All other bytes stay unchanged.
pub fn move_record(record: &mut [u8], place: NewPlace) -> Result<()> {
    let NewPlace { seek, seek_directory, process_ids_before } = place;
    let version = record.get(4..6).and_then(|bytes| bytes.first_chunk()).map(|bytes| i16::from_be_bytes(*bytes));
    let is_big = version.is_some_and(|version| version > BIG_VERSION);
    if !is_big && seek > BIG_FILE_BYTES {
        let message = "a basket with 32-bit offsets cannot be stored beyond the first 2 GB of a file";
        return Err(FormatError::unsupported(message));
    }
    let (mut places, size) = (Vec::with_capacity(16), if is_big { 16 } else { 8 });
    let Some(old) = record.get_mut(18..18 + size) else {
        return Err(FormatError::damaged(0, format!("a record of {} bytes is shorter than its key", record.len())));
    };
    let before = if is_big { u16::from_be_bytes([old[8], old[9]]) } else { 0 };
    let before = before.checked_add(process_ids_before).filter(|before| *before == 0 || is_big).ok_or_else(|| {
        FormatError::unsupported("the basket has no field for the process ID offset, which TRefs need")
    })?;
    push_seek(&mut places, seek, is_big)?;
    push_seek(&mut places, seek_directory | (u64::from(before) << PROCESS_BITS), is_big)?;
    old.copy_from_slice(&places);
    Ok(())
}
