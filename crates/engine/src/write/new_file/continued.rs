//! Extends an existing ROOT file.

use std::collections::HashMap;

use branchline_format::file::directory::{is_directory, newest_first, Entry};
use branchline_format::file::read_key_at;
use branchline_format::write::file::{BEGIN, DIRECTORY_SIZE};
use branchline_format::write::FileFrame;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::file::File;
use crate::write::new_file::{Directory, NewFile, ObjectName, OldDirectory, Slot, SlotId, TOP};
use crate::write::output::Output;

/// Size of a UUID in bytes.
const UUID_BYTES: usize = 16;
/// Highest version of a directory record with 32-bit offsets. Records of later versions have 64-bit offsets.
const BIG_VERSION: u16 = 1000;

impl NewFile {
    /// Continues the file `old` in `output`, which already has all bytes of `old`.
    pub(crate) fn continued(mut output: Output, old: &File, compress: i32, date: u32) -> Result<Self> {
        let header = old.header();
        if header.begin != BEGIN {
            return Err(not_here(old, "its header has an unsupported layout"));
        }
        let top = old.metadata_reader().until_known(|loaded| read_key_at(loaded, BEGIN))?;
        let name_size = header.directory_offset() - BEGIN;
        let record = OldRecord::read(&mut output, old, header.directory_offset(), top.size.saturating_sub(name_size))?;
        let name = output.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let frame = FileFrame { name, date, uuid: record.uuid, root_version: old.root_version(), compress };
        let object =
            ObjectName { class_name: String::new(), name: String::new(), title: String::new(), date, cycle: 1 };
        let old = Some(OldDirectory { name_size });
        let slots = Vec::new();
        let directory = Directory { object, seek: BEGIN, parent: TOP, uuid: record.uuid, slots, old, list: None };
        Ok(Self::of(output, frame, directory))
    }

    /// Imports the keys of all directories. Returns the path, slot and name of each key.
    pub(crate) fn list_old(&mut self, old: &File) -> Result<Vec<(String, SlotId, ObjectName)>> {
        let mut entries = old.entries_below("")?;
        oldest_keys_first(&mut entries);
        // Sort by depth, because a directory must precede its contents.
        entries.sort_by_key(|entry| entry.path.matches('/').count());
        let mut listed = Vec::with_capacity(entries.len());
        for entry in entries {
            let key = &entry.key;
            let parent = entry.path.strip_suffix(&key.name).map_or("", |parent| parent.trim_end_matches('/'));
            let Some(directory) = self.directory(parent) else {
                return Err(not_here(old, &format!("the directory of {} is unknown", entry.path)));
            };
            if is_directory(key) && self.directory(&entry.path).is_none() {
                let record = OldRecord::read(&mut self.output, old, key.seek + key.key_size, key.object_size)?;
                let made = Directory {
                    object: ObjectName { cycle: key.cycle, ..ObjectName::of_key(key) },
                    seek: key.seek,
                    parent: directory,
                    uuid: record.uuid,
                    slots: Vec::new(),
                    old: Some(OldDirectory { name_size: key.key_size }),
                    list: None,
                };
                self.by_path.insert(entry.path.clone(), self.directories.len());
                self.directories.push(made);
            }
            // The key that precedes an object is the same as its copy in the list of keys.
            let bytes = self.output.read_at(key.seek, key.key_size as usize)?;
            let slots = &mut self.directories[directory].slots;
            slots.push(Slot::Key { name: key.name.clone(), bytes });
            let place = SlotId { directory, slot: slots.len() - 1 };
            listed.push((entry.path, place, ObjectName { cycle: key.cycle, ..ObjectName::of_key(&entry.key) }));
        }
        Ok(listed)
    }
}

/// Sorts the keys that share a path, oldest first. These keys only swap positions with each other; all other keys stay
/// where they are.
fn oldest_keys_first(entries: &mut [Entry]) {
    let mut places: HashMap<String, Vec<usize>> = HashMap::with_capacity(entries.len());
    for (place, entry) in entries.iter().enumerate() {
        places.entry(entry.path.clone()).or_default().push(place);
    }
    for same in places.values().filter(|same| same.len() > 1) {
        let mut keys: Vec<Entry> = same.iter().map(|place| entries[*place].clone()).collect();
        newest_first(&mut keys, |entry| entry.key.cycle);
        for (place, entry) in same.iter().zip(keys.into_iter().rev()) {
            entries[*place] = entry;
        }
    }
}

/// The fields of an existing directory record that are kept.
struct OldRecord {
    uuid: [u8; UUID_BYTES],
}

impl OldRecord {
    /// Reads the directory record at this offset. The record has at most `room` bytes.
    fn read(output: &mut Output, old: &File, offset: u64, room: u64) -> Result<Self> {
        if room < DIRECTORY_SIZE {
            return Err(not_here(old, "its directory records have no room for 64-bit offsets"));
        }
        let bytes = output.read_at(offset, DIRECTORY_SIZE as usize)?;
        let version = u16::from_be_bytes([bytes[0], bytes[1]]);
        // Skip the version, two dates, two sizes, three offsets, and the version of the UUID.
        let at = 2 + 8 + 8 + if version > BIG_VERSION { 24 } else { 12 } + 2;
        let mut uuid = [0; UUID_BYTES];
        uuid.copy_from_slice(&bytes[at..at + UUID_BYTES]);
        Ok(Self { uuid })
    }
}

fn not_here(old: &File, why: &str) -> ReadError {
    let message = format!("this file cannot be extended: {why}");
    ReadError::new(ReadErrorKind::Unsupported, old.path(), message)
        .with_hint("copy it with branchline merge, and extend the copy")
}
