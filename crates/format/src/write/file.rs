//! The structure of a file around its data records: header, directories, lists of keys and free space.
//!
//! ```
//! use branchline_format::file::loaded_bytes::LoadedBytes;
//! use branchline_format::file::read_header;
//! use branchline_format::write::file::{FileFrame, RecordPlace};
//!
//! let frame = FileFrame {
//!     name: "new.root".to_string(),
//!     date: 0,
//!     uuid: [0; 16],
//!     root_version: 64000,
//!     compress: 505,
//! };
//! let nothing = RecordPlace { seek: 0, size: 0 };
//! let mut file = frame.header(100, nothing, nothing)?;
//! file.resize(100, 0);
//! let header = read_header(&LoadedBytes::whole(file.into())).unwrap();
//! assert_eq!((header.version, header.compress), (64000, 505));
//! # Ok::<(), branchline_format::error::FormatError>(())
//! ```

use crate::error::Result;
use crate::marks::BIG_FILE_VERSION;

use super::key::{push_i32, push_seek, push_string, string_size, NewKey, BIG_FILE_BYTES};

/// Offset of the first record (TFile::fBEGIN). The file header is shorter.
pub const BEGIN: u64 = 100;
/// Size of a directory in its record, with room for 64-bit offsets.
pub const DIRECTORY_SIZE: u64 = 60;
/// Class version of TDirectoryFile. 1000 is added if the directory has 64-bit offsets.
const DIRECTORY_VERSION: i16 = 5;
/// In large files, the free space ends at the next multiple of this number, like in ROOT.
const FREE_STEP: u64 = 1_000_000_000;

/// Properties that all structural records of a file share.
#[derive(Debug, Clone)]
pub struct FileFrame {
    /// File name without the folder.
    pub name: String,
    /// Creation time, packed as in TDatime.
    pub date: u32,
    /// UUID of the file.
    pub uuid: [u8; 16],
    /// Version of ROOT whose record formats are used, e.g. 62206.
    pub root_version: i32,
    /// ROOT's integer code of the compression setting, 100 * algorithm + level.
    pub compress: i32,
}

/// Location of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordPlace {
    /// Offset in the file.
    pub seek: u64,
    /// Size in bytes.
    pub size: u64,
}

/// The record with a directory's list of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyListRecord {
    /// The bytes of the record.
    pub bytes: Vec<u8>,
    /// Offset of the number of keys, relative to the start of the record.
    pub count_offset: u64,
    /// Offset of the end of the last key, relative to the start of the record.
    pub keys_end: u64,
}

/// A directory to be written: the top directory of the file, or a directory with a key in another directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewDirectory<'a> {
    /// Class name.
    pub class_name: &'a str,
    /// Name of the directory.
    pub name: &'a [u8],
    /// Title of the directory.
    pub title: &'a [u8],
    /// Creation time, packed as in TDatime.
    pub date: u32,
    /// Offset of the directory's record.
    pub seek: u64,
    /// Offset of the parent directory; 0 for the top directory.
    pub seek_parent: u64,
    /// Cycle number, which distinguishes keys of the same name.
    pub cycle: i16,
    /// UUID of the directory.
    pub uuid: [u8; 16],
}

impl NewDirectory<'_> {
    /// The key of the directory's record or of its list of keys. `size` is the size of the keyed object.
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

    /// Size of the key and, for the top directory, of the name and title after the key (TDirectoryFile::fNbytesName).
    fn name_size(&self) -> u64 {
        let names = if self.is_top() { string_size(self.name) + string_size(self.title) } else { 0 };
        self.key(self.seek, 0).size() + names
    }

    /// Size of the directory's record.
    pub fn size(&self) -> u64 {
        self.name_size() + DIRECTORY_SIZE
    }

    /// The key of the directory's record, for the parent directory's list of keys.
    pub fn key_bytes(&self) -> Result<Vec<u8>> {
        let mut key = self.key(self.seek, 0);
        let size = self.size() - key.size();
        (key.object_size, key.stored_size, key.seek_directory) = (size, size, self.seek_parent);
        key.bytes()
    }

    /// Encode the directory's record (TDirectoryFile::FillBuffer).
    pub fn record(&self, keys: RecordPlace) -> Result<Vec<u8>> {
        let mut out = self.key_bytes()?;
        if self.is_top() {
            push_string(&mut out, self.name)?;
            push_string(&mut out, self.title)?;
        }
        out.extend(self.places(self.name_size(), keys)?);
        Ok(out)
    }

    /// Encode the part of the record after the key and, for the top directory, after the name and title. `name_size` is
    /// the size of the parts before it.
    pub fn places(&self, name_size: u64, keys: RecordPlace) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(DIRECTORY_SIZE as usize);
        let is_big = [self.seek, self.seek_parent, keys.seek].iter().any(|seek| *seek > BIG_FILE_BYTES);
        out.extend((DIRECTORY_VERSION + if is_big { 1000 } else { 0 }).to_be_bytes());
        out.extend(self.date.to_be_bytes()); // creation time
        out.extend(self.date.to_be_bytes()); // modification time
        push_i32(&mut out, keys.size)?;
        push_i32(&mut out, name_size)?;
        for seek in [self.seek, self.seek_parent, keys.seek] {
            push_seek(&mut out, seek, is_big)?;
        }
        push_uuid(&mut out, &self.uuid);
        out.resize(DIRECTORY_SIZE as usize, 0);
        Ok(out)
    }

    /// Encode the record with the list of keys. `room` bytes are left free for further keys.
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

/// Size of a free segment: version, offset of the first byte and offset of the last byte.
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
    /// Create the top directory.
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

    /// Size of the top directory's record, which starts at [`BEGIN`].
    pub fn top_size(&self) -> u64 {
        self.top().size()
    }

    /// Whether a free space record at `seek`, at the end of the file, needs 64-bit offsets.
    pub fn has_big_free_list(&self, seek: u64) -> bool {
        seek > BIG_FILE_BYTES - (BEGIN + self.top_size())
    }

    /// Size of the free space record.
    pub fn free_list_size(&self, seek: u64, is_big: bool) -> u64 {
        self.key(seek, 0).size() + free_size(is_big)
    }

    /// Encode the free space record. All space after `end` is free. `is_big` selects 64-bit offsets.
    pub fn free_list(&self, seek: u64, end: u64, is_big: bool) -> Result<Vec<u8>> {
        let mut out = self.key(seek, free_size(is_big)).bytes()?;
        out.extend((1i16 + if is_big { 1000 } else { 0 }).to_be_bytes());
        push_seek(&mut out, end, is_big)?;
        let last = if end > BIG_FILE_BYTES { (end / FREE_STEP + 1) * FREE_STEP } else { BIG_FILE_BYTES };
        push_seek(&mut out, last, is_big)?;
        Ok(out)
    }

    /// Encode the file header.
    pub fn header(&self, end: u64, free: RecordPlace, infos: RecordPlace) -> Result<Vec<u8>> {
        self.header_above(end, free, infos, self.top().name_size())
    }

    /// Encode the file header. `name_size` is the total size of the top directory's key, name and title.
    pub fn header_above(&self, end: u64, free: RecordPlace, infos: RecordPlace, name_size: u64) -> Result<Vec<u8>> {
        let is_big = end > BIG_FILE_BYTES;
        let mut out = b"root".to_vec();
        out.extend((self.root_version + if is_big { BIG_FILE_VERSION } else { 0 }).to_be_bytes());
        push_i32(&mut out, BEGIN)?;
        push_seek(&mut out, end, is_big)?;
        push_seek(&mut out, free.seek, is_big)?;
        push_i32(&mut out, free.size)?;
        push_i32(&mut out, 1)?; // number of free segments
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
