//! TKey: the head of a record, and its changes when a record is copied to another file.

use crate::error::{FormatError, Result};
use crate::marks::{BIG_VERSION, KEY_VERSION};

/// Places above this need the large form of keys and headers (TFile::kStartBigFile).
pub const BIG_FILE_BYTES: u64 = 2_000_000_000;
/// The 16 highest bits of a large key's fSeekPdir hold the offset of its process ids.
const PROCESS_BITS: u32 = 48;

/// A key to be written.
#[derive(Debug, Clone)]
pub struct NewKey<'a> {
    /// Class of the object.
    pub class_name: &'a str,
    /// Its name.
    pub name: &'a [u8],
    /// Its title.
    pub title: &'a [u8],
    /// Bytes of the object after decompression.
    pub object_size: u64,
    /// Bytes of the object in the file.
    pub stored_size: u64,
    /// When it was made, as TDatime packs it.
    pub date: u32,
    /// Version number of this name.
    pub cycle: i16,
    /// Where the record lies.
    pub seek: u64,
    /// Where its directory lies.
    pub seek_directory: u64,
}

impl NewKey<'_> {
    fn is_big(&self) -> bool {
        self.seek > BIG_FILE_BYTES
    }

    /// Bytes of the key.
    pub fn size(&self) -> u64 {
        let numbers = if self.is_big() { 34 } else { 26 };
        let texts = [self.class_name.as_bytes(), self.name, self.title];
        numbers + texts.iter().map(|text| string_size(text)).sum::<u64>()
    }

    /// The key.
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

/// Bytes of a TString.
pub fn string_size(text: &[u8]) -> u64 {
    text.len() as u64 + if text.len() < 255 { 1 } else { 5 }
}

/// A TString.
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

/// A place, in four or eight bytes.
pub fn push_seek(out: &mut Vec<u8>, seek: u64, is_big: bool) -> Result<()> {
    if is_big {
        out.extend(seek.to_be_bytes());
        return Ok(());
    }
    push_i32(out, seek)
}

/// A size in four bytes, of which ROOT reads 31 bits.
pub fn push_i32(out: &mut Vec<u8>, size: u64) -> Result<()> {
    out.extend(i32::try_from(size).map_err(|_| too_large("a number", size))?.to_be_bytes());
    Ok(())
}

fn too_large(what: &str, size: u64) -> FormatError {
    FormatError::unsupported(format!("{what} of {size} is larger than ROOT files have room for"))
}

/// Where a record lies now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewPlace {
    /// Where it begins.
    pub seek: u64,
    /// Where its directory lies.
    pub seek_directory: u64,
    /// How many process ids of other files stand in front of those that its references count (TKey::fPidOffset).
    pub process_ids_before: u16,
}

/// Sets the new place in the key of a basket's record; all its other bytes are copied.
pub fn move_record(record: &mut [u8], place: NewPlace) -> Result<()> {
    let NewPlace { seek, seek_directory, process_ids_before } = place;
    let version = record.get(4..6).and_then(|bytes| bytes.first_chunk()).map(|bytes| i16::from_be_bytes(*bytes));
    let is_big = version.is_some_and(|version| version > BIG_VERSION);
    if !is_big && seek > BIG_FILE_BYTES {
        let message = "a basket with places of 32 bits cannot lie behind the first 2 GB of a file";
        return Err(FormatError::unsupported(message));
    }
    let (mut places, size) = (Vec::with_capacity(16), if is_big { 16 } else { 8 });
    let Some(old) = record.get_mut(18..18 + size) else {
        return Err(FormatError::damaged(0, format!("a record of {} bytes is shorter than its key", record.len())));
    };
    let before = if is_big { u16::from_be_bytes([old[8], old[9]]) } else { 0 };
    let before = before.checked_add(process_ids_before).filter(|before| *before == 0 || is_big).ok_or_else(|| {
        FormatError::unsupported("a basket without room for the number of its process ids, which TRefs need")
    })?;
    push_seek(&mut places, seek, is_big)?;
    push_seek(&mut places, seek_directory | (u64::from(before) << PROCESS_BITS), is_big)?;
    old.copy_from_slice(&places);
    Ok(())
}
