//! What stands around the records of a file: its header, the top directory, the list of keys and the free space.

use crate::error::Result;
use crate::marks::BIG_FILE_VERSION;

use super::key::{push_i32, push_seek, push_string, string_size, NewKey, BIG_FILE_BYTES};

/// Where the first record lies (TFile::fBEGIN); the header is shorter.
pub const BEGIN: u64 = 100;
/// Bytes of a directory's record, with room for large places.
pub const DIRECTORY_SIZE: u64 = 60;
/// TDirectoryFile's class version; the large form has 1000 added.
const DIRECTORY_VERSION: i16 = 5;
/// The free space behind the end reaches up to a multiple of this, as in files of ROOT.
const FREE_STEP: u64 = 1_000_000_000;

/// What is the same for all parts of a file.
#[derive(Debug, Clone)]
pub struct FileFrame {
    /// Its name, without its folder.
    pub name: String,
    /// When it was made, as TDatime packs it.
    pub date: u32,
    /// Its UUID.
    pub uuid: [u8; 16],
    /// Version of ROOT whose records it has, e.g. 62206.
    pub root_version: i32,
    /// Compression setting, 100 * algorithm + level.
    pub compress: i32,
}

/// Where a record lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordPlace {
    /// Where it begins.
    pub seek: u64,
    /// Its bytes.
    pub size: u64,
}

/// The record of the list of a directory's keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyListRecord {
    /// All its bytes.
    pub bytes: Vec<u8>,
    /// Where in it the number of keys lies.
    pub count_offset: u64,
    /// Where in it the last key ends.
    pub keys_end: u64,
}

/// A directory to be written: the top one, which is the file, or one that has a key in another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewDirectory<'a> {
    /// Its class.
    pub class_name: &'a str,
    /// Its name.
    pub name: &'a [u8],
    /// Its title.
    pub title: &'a [u8],
    /// When it was made, as TDatime packs it.
    pub date: u32,
    /// Where its record lies.
    pub seek: u64,
    /// Where the directory around it lies; 0 for the top one.
    pub seek_parent: u64,
    /// Version number of its name.
    pub cycle: i16,
    /// Its UUID.
    pub uuid: [u8; 16],
}

impl NewDirectory<'_> {
    /// The key of a record of `size` bytes: its own, or that of the list of its keys.
    fn key(&self, seek: u64, size: u64) -> NewKey<'_> {
        NewKey {
            class_name: self.class_name,
            name: self.name,
            title: self.title,
            object_size: size,
            stored_size: size,
            date: self.date,
            cycle: self.cycle,
            seek,
            seek_directory: self.seek,
        }
    }

    fn is_top(&self) -> bool {
        self.seek_parent == 0
    }

    /// Bytes of the key of its record and, of the top one, of name and title behind it (TDirectoryFile::fNbytesName).
    fn name_size(&self) -> u64 {
        let names = if self.is_top() { string_size(self.name) + string_size(self.title) } else { 0 };
        self.key(self.seek, 0).size() + names
    }

    /// Bytes of its record.
    pub fn size(&self) -> u64 {
        self.name_size() + DIRECTORY_SIZE
    }

    /// The key of its record, which the directory around it lists.
    pub fn key_bytes(&self) -> Result<Vec<u8>> {
        let mut key = self.key(self.seek, 0);
        let size = self.size() - key.size();
        (key.object_size, key.stored_size, key.seek_directory) = (size, size, self.seek_parent);
        key.bytes()
    }

    /// Its record (TDirectoryFile::FillBuffer).
    pub fn record(&self, keys: RecordPlace) -> Result<Vec<u8>> {
        let mut out = self.key_bytes()?;
        if self.is_top() {
            push_string(&mut out, self.name)?;
            push_string(&mut out, self.title)?;
        }
        out.extend(self.places(self.name_size(), keys)?);
        Ok(out)
    }

    /// What its record has behind its key and, of the top one, its name and title; these take `name_size` bytes.
    pub fn places(&self, name_size: u64, keys: RecordPlace) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(DIRECTORY_SIZE as usize);
        let is_big = [self.seek, self.seek_parent, keys.seek].iter().any(|seek| *seek > BIG_FILE_BYTES);
        out.extend((DIRECTORY_VERSION + if is_big { 1000 } else { 0 }).to_be_bytes());
        out.extend(self.date.to_be_bytes()); // made
        out.extend(self.date.to_be_bytes()); // changed
        push_i32(&mut out, keys.size)?;
        push_i32(&mut out, name_size)?;
        for seek in [self.seek, self.seek_parent, keys.seek] {
            push_seek(&mut out, seek, is_big)?;
        }
        push_uuid(&mut out, &self.uuid);
        out.resize(DIRECTORY_SIZE as usize, 0);
        Ok(out)
    }

    /// The record of the list of its keys, with room behind them for `room` bytes of others.
    pub fn key_list(&self, seek: u64, keys: &[Vec<u8>], room: u64) -> Result<KeyListRecord> {
        let size = 4 + keys.iter().map(|key| key.len() as u64).sum::<u64>() + room;
        let mut key = self.key(seek, size);
        key.cycle = 1;
        let mut bytes = key.bytes()?;
        let count_offset = bytes.len() as u64;
        push_i32(&mut bytes, keys.len() as u64)?;
        keys.iter().for_each(|key| bytes.extend_from_slice(key));
        let keys_end = bytes.len() as u64;
        bytes.resize(bytes.len() + room as usize, 0);
        Ok(KeyListRecord { bytes, count_offset, keys_end })
    }
}

/// Bytes of a stretch of free space: version, first and last byte.
fn free_size(is_big: bool) -> u64 {
    if is_big {
        18
    } else {
        10
    }
}

fn push_uuid(out: &mut Vec<u8>, uuid: &[u8; 16]) {
    out.extend(1i16.to_be_bytes()); // TUUID's version
    out.extend_from_slice(uuid);
}

impl FileFrame {
    /// Its top directory.
    pub fn top(&self) -> NewDirectory<'_> {
        NewDirectory {
            class_name: "TFile",
            name: self.name.as_bytes(),
            title: b"",
            date: self.date,
            seek: BEGIN,
            seek_parent: 0,
            cycle: 1,
            uuid: self.uuid,
        }
    }

    fn key(&self, seek: u64, size: u64) -> NewKey<'_> {
        NewKey {
            class_name: "TFile",
            name: self.name.as_bytes(),
            title: b"",
            object_size: size,
            stored_size: size,
            date: self.date,
            cycle: 1,
            seek,
            seek_directory: BEGIN,
        }
    }

    /// Bytes of the record of the top directory, which begins at [`BEGIN`].
    pub fn top_size(&self) -> u64 {
        self.top().size()
    }

    /// Whether the record of the free space of a file that ends with it needs 64 bits.
    pub fn has_big_free_list(&self, seek: u64) -> bool {
        seek > BIG_FILE_BYTES - (BEGIN + self.top_size())
    }

    /// Bytes of the record of the free space.
    pub fn free_list_size(&self, seek: u64, is_big: bool) -> u64 {
        self.key(seek, 0).size() + free_size(is_big)
    }

    /// The record of the free space, which is all behind `end`; `is_big` gives it places of 64 bits.
    pub fn free_list(&self, seek: u64, end: u64, is_big: bool) -> Result<Vec<u8>> {
        let mut out = self.key(seek, free_size(is_big)).bytes()?;
        out.extend((1i16 + if is_big { 1000 } else { 0 }).to_be_bytes());
        push_seek(&mut out, end, is_big)?;
        let last = if end > BIG_FILE_BYTES { (end / FREE_STEP + 1) * FREE_STEP } else { BIG_FILE_BYTES };
        push_seek(&mut out, last, is_big)?;
        Ok(out)
    }

    /// The header.
    pub fn header(&self, end: u64, free: RecordPlace, infos: RecordPlace) -> Result<Vec<u8>> {
        self.header_above(end, free, infos, self.top().name_size())
    }

    /// The header of a file whose top directory has a key, name and title of `name_size` bytes.
    pub fn header_above(&self, end: u64, free: RecordPlace, infos: RecordPlace, name_size: u64) -> Result<Vec<u8>> {
        let is_big = end > BIG_FILE_BYTES;
        let mut out = b"root".to_vec();
        out.extend((self.root_version + if is_big { BIG_FILE_VERSION } else { 0 }).to_be_bytes());
        push_i32(&mut out, BEGIN)?;
        push_seek(&mut out, end, is_big)?;
        push_seek(&mut out, free.seek, is_big)?;
        push_i32(&mut out, free.size)?;
        push_i32(&mut out, 1)?; // stretches of free space
        push_i32(&mut out, name_size)?;
        out.push(if is_big { 8 } else { 4 });
        out.extend(self.compress.to_be_bytes());
        push_seek(&mut out, infos.seek, is_big)?;
        push_i32(&mut out, infos.size)?;
        push_uuid(&mut out, &self.uuid);
        out.resize(BEGIN as usize, 0);
        Ok(out)
    }
}
