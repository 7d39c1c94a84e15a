//! Recovery of files that were never closed, for example because the job was killed. Like TFile::Recover, this module
//! scans all records to find the keys of the top directory.
//!
//! ```
//! use branchline_format::file::loaded_bytes::LoadedBytes;
//! use branchline_format::file::read_header;
//! use branchline_format::file::recover::Recovery;
//! # use branchline_format::write::file::{FileFrame, RecordPlace};
//! #
//! # let frame = FileFrame {
//! #     name: "new.root".to_string(),
//! #     date: 0,
//! #     uuid: [0; 16],
//! #     root_version: 64000,
//! #     compress: 505,
//! # };
//!
//! # let nothing = RecordPlace { seek: 0, size: 0 };
//! # let mut file = frame.header(100, nothing, nothing)?;
//! # file.resize(100, 0);
//! // The file of a writer that was killed before it wrote an object.
//! let loaded = LoadedBytes::whole(file.into());
//! let mut recovery = Recovery::new(&read_header(&loaded).unwrap());
//! recovery.walk(&loaded).unwrap();
//! assert!(recovery.keys.is_empty());
//! # Ok::<(), branchline_format::error::FormatError>(())
//! ```

use crate::cursor::Cursor;
use crate::error::Result;
use crate::file::loaded_bytes::{DecodeError, LoadedBytes};
use crate::file::{parse_key, seek, FileHeader, TKey, KEY_SIZE_MIN};
use crate::marks::BIG_VERSION;

/// Bytes to request for a key. Few keys are longer.
const KEY_GUESS_SIZE: u64 = 1 << 10;
/// Classes of records that are not listed in directories: baskets, pages of RNTuples, lists of keys, and lists of free
/// space.
const NOT_IN_DIRECTORIES: [&str; 4] = ["TBasket", "RBlob", "TFile", ""];

/// A resumable scan of a file's records. Continues at the point where bytes were missing.
#[derive(Debug)]
pub struct Recovery {
    /// Offset of the next record.
    next: u64,
    /// Offset of the top directory, which its keys store as their parent.
    directory: u64,
    /// The keys of the top directory, in the order of their records.
    pub keys: Vec<TKey>,
    /// The key of the streamer info list, if the list was written.
    pub streamer_infos: Option<TKey>,
}

impl Recovery {
    /// Create a scan that starts at the first record.
    pub fn new(header: &FileHeader) -> Self {
        Self { next: header.begin, directory: header.begin, keys: Vec::new(), streamer_infos: None }
    }

    /// Scan as far as the bytes in memory allow. Stops at the end of the file or at the first record that is incomplete
    /// or damaged, because the job may have been killed while it wrote the last record.
    pub fn walk(&mut self, loaded: &LoadedBytes) -> std::result::Result<(), DecodeError> {
        while loaded.file_size().saturating_sub(self.next) >= KEY_SIZE_MIN {
            let bytes = loaded.get_up_to(self.next, KEY_GUESS_SIZE)?;
            let size = i64::from(Cursor::new(bytes).i32()?);
            if size > 0 && self.next.saturating_add(size as u64) <= loaded.file_size() {
                match key_and_directory(bytes) {
                    Ok((key, directory)) => self.keep_own(key, directory),
                    Err(_) => break,
                }
            } else if size >= 0 {
                break;
            }
            // Free space is stored as a record with a negative size.
            self.next = self.next.saturating_add(size.unsigned_abs().max(1));
        }
        Ok(())
    }

    /// Store `key` if it belongs to the top directory.
    fn keep_own(&mut self, key: TKey, directory: u64) {
        // A record copied from another file, for example by a fast merge, has the offset of its original in its key.
        let is_own = directory == self.directory && key.seek == self.next;
        if !is_own || NOT_IN_DIRECTORIES.contains(&key.class_name.as_str()) {
            return;
        }
        if key.name == "StreamerInfo" {
            self.streamer_infos = Some(key);
        } else {
            self.keys.push(key);
        }
    }
}

/// Parse a key and the offset of the directory that contains it (TKey::fSeekPdir, after fSeekKey).
fn key_and_directory(bytes: &[u8]) -> Result<(TKey, u64)> {
    let big = Cursor::at(bytes, 4).i16()? > BIG_VERSION;
    let directory = seek(&mut Cursor::at(bytes, if big { 26 } else { 22 }), big)?;
    Ok((parse_key(&mut Cursor::new(bytes))?, directory))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::read_header;

    const BEGIN: usize = 100;

    fn header(size: usize) -> Vec<u8> {
        let mut bytes = vec![0; BEGIN];
        bytes[..4].copy_from_slice(b"root");
        bytes[4..8].copy_from_slice(&62_206_i32.to_be_bytes());
        bytes[8..12].copy_from_slice(&(BEGIN as i32).to_be_bytes());
        bytes[12..16].copy_from_slice(&(size as i32).to_be_bytes());
        bytes
    }

    fn add(bytes: &mut Vec<u8>, class_name: &str, name: &str, cycle: i16, directory: u32, object: usize) {
        let key_size = 26 + 3 + class_name.len() + name.len();
        let seek = bytes.len() as u32;
        bytes.extend(((key_size + object) as i32).to_be_bytes());
        bytes.extend(4_i16.to_be_bytes());
        bytes.extend((object as i32).to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend((key_size as u16).to_be_bytes());
        bytes.extend(cycle.to_be_bytes());
        bytes.extend(seek.to_be_bytes());
        bytes.extend(directory.to_be_bytes());
        for text in [class_name, name, ""] {
            bytes.push(text.len() as u8);
            bytes.extend(text.as_bytes());
        }
        bytes.extend(vec![7; object]);
    }

    fn recovered(bytes: Vec<u8>) -> Recovery {
        let loaded = LoadedBytes::whole(bytes.into());
        let mut recovery = Recovery::new(&read_header(&loaded).unwrap());
        recovery.walk(&loaded).unwrap();
        recovery
    }

    fn example() -> Vec<u8> {
        let mut bytes = header(BEGIN);
        add(&mut bytes, "TFile", "f.root", 1, 0, 50);
        add(&mut bytes, "TBasket", "x", 1, 100, 5000);
        add(&mut bytes, "TTree", "tree", 1, 100, 300);
        add(&mut bytes, "TH1F", "inside", 1, 999, 30);
        add(&mut bytes, "TBasket", "x", 2, 100, 5000);
        add(&mut bytes, "TTree", "tree", 2, 100, 300);
        add(&mut bytes, "TList", "StreamerInfo", 1, 100, 80);
        bytes
    }

    #[test]
    fn the_objects_of_the_top_directory_are_found() {
        let recovery = recovered(example());
        let found: Vec<_> = recovery.keys.iter().map(|key| (key.name.as_str(), key.cycle)).collect();
        assert_eq!(found, [("tree", 1), ("tree", 2)]);
        assert_eq!(recovery.streamer_infos.unwrap().object_size, 80);
    }

    #[test]
    fn free_space_is_stepped_over_and_a_record_that_is_cut_short_ends_it() {
        let mut bytes = header(BEGIN);
        bytes.extend((-40_i32).to_be_bytes());
        bytes.extend([0; 36]);
        add(&mut bytes, "TTree", "tree", 3, 100, 300);
        add(&mut bytes, "TTree", "tree", 4, 100, 300);
        bytes.truncate(bytes.len() - 1);
        assert_eq!(recovered(bytes).keys.iter().map(|key| key.cycle).collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn any_bytes_come_to_an_end() {
        let good = example();
        for place in BEGIN..good.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bytes = good.clone();
                bytes[place] = value;
                let most = bytes.len();
                assert!(recovered(bytes).keys.iter().all(|key| key.seek + key.size <= most as u64));
            }
        }
    }

    #[test]
    fn it_goes_on_where_bytes_were_missing() {
        let bytes = example();
        let size = bytes.len() as u64;
        let whole = LoadedBytes::whole(bytes.clone().into());
        let mut recovery = Recovery::new(&read_header(&whole).unwrap());
        let mut loaded = LoadedBytes::new(size);
        while let Err(error) = recovery.walk(&loaded) {
            let DecodeError::MissingBytes { offset, size } = error else { panic!("{error:?}") };
            loaded = LoadedBytes::new(bytes.len() as u64);
            loaded.add(offset, bytes[offset as usize..(offset + size) as usize].to_vec().into());
        }
        assert_eq!(recovery.keys.len(), 2);
    }
}
