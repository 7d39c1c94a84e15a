//! A ROOT file that is being written: its directories with their keys, and the records of the file itself.

mod continued;
mod frame;

use std::collections::{HashMap, HashSet};
use std::io::IoSlice;

use branchline_format::compress::{Compressor, Setting};
use branchline_format::error::FormatError;
use branchline_format::file::TKey;
use branchline_format::write::file::BEGIN;
use branchline_format::write::{FileFrame, NewDirectory, NewKey, RecordPlace};
use xxhash_rust::xxh3::xxh3_128;

use crate::error::{ReadError, Result};
use crate::write::output::Output;

/// The class name in keys of directories. A directory is a TDirectoryFile, but ROOT writes this name into its key.
pub(crate) const DIRECTORY: &str = "TDirectory";

/// A file that is being written.
pub(crate) struct NewFile {
    output: Output,
    frame: FileFrame,
    setting: Setting,
    compressor: Compressor,
    directories: Vec<Directory>,
    by_path: HashMap<String, usize>,
    published: PublishedFrame,
    superseded_bytes: u64,
}

/// A directory in the file.
struct Directory {
    object: ObjectName,
    seek: u64,
    parent: usize,
    uuid: [u8; 16],
    slots: Vec<Slot>,
    /// The existing record of the directory, if the file is extended.
    old: Option<OldDirectory>,
    /// The list of keys to which the directory's record points. None until the list is written.
    list: Option<KeyList>,
}

/// The existing record of a directory. `name_size` is the size of the key, name and title, which precede the record's
/// other fields.
#[derive(Debug, Clone, Copy)]
struct OldDirectory {
    name_size: u64,
}

/// A slot in a directory's list of keys.
#[derive(Debug, Clone)]
pub(crate) enum Slot {
    /// The key of an object, and the object's name.
    Key { name: String, bytes: Vec<u8> },
    /// A directory, given by its index.
    Directory(usize),
    /// An object that will be written later.
    Reserved,
    /// An object that will be written later into reserved bytes. `seek` is the offset of its key, and `size` the number
    /// of bytes.
    Room { seek: u64, size: u64 },
}

/// The records to which the file header points.
#[derive(Debug, Default)]
struct PublishedFrame {
    infos: Option<RecordPlace>,
    free: Option<RecordPlace>,
}

/// The list of keys to which the record of a directory points.
#[derive(Debug)]
struct KeyList {
    place: RecordPlace,
    /// Offset of the key count in the file.
    count_offset: u64,
    /// Offset in the file after the last key.
    keys_end: u64,
    keys_count: usize,
    /// Number of the directory's slots that the list includes.
    slots_count: usize,
    /// Names of the keys. A repeated name must precede the older keys of that name, which requires a new list.
    names: HashSet<String>,
    /// Whether a slot that the list includes has changed.
    is_stale: bool,
}

impl KeyList {
    /// Notes that a slot of the directory has changed.
    fn note_change(&mut self, slot: usize) {
        self.is_stale |= slot < self.slots_count;
    }

    /// Notes that the directory was rolled back to this many slots.
    fn note_removal(&mut self, slots_count: usize) {
        self.is_stale |= slots_count < self.slots_count;
    }
}

/// How much spare room to leave in records that may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spacing {
    /// No spare room, because the file will not be extended.
    Tight,
    /// Room for more keys and for a larger file.
    Roomy,
}

/// The name, class and date of an object, as its key stores them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObjectName {
    pub(crate) class_name: String,
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) date: u32,
    pub(crate) cycle: i16,
}

impl ObjectName {
    /// Copies the name of an object from its key in another file. The cycle is set to 1.
    pub(crate) fn of_key(key: &TKey) -> Self {
        Self {
            class_name: key.class_name.clone(),
            name: key.name.clone(),
            title: key.title.clone(),
            date: key.date,
            cycle: 1,
        }
    }
}

/// A slot in a directory's list of keys, as the index of the directory and the index of the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SlotId {
    pub(crate) directory: usize,
    slot: usize,
}

/// A state of a file to which the file can be rolled back.
#[derive(Debug, Clone)]
pub(crate) struct Mark {
    end: u64,
    slots: Vec<usize>,
}

impl Mark {
    /// The end offset of the file in that state.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }
}

/// Index of the top directory.
pub(crate) const TOP: usize = 0;

impl NewFile {
    /// Creates a file.
    pub(crate) fn begin(mut output: Output, frame: FileFrame) -> Result<Self> {
        output.write(&vec![0; (BEGIN + frame.top_size()) as usize])?;
        let object = ObjectName {
            class_name: String::new(),
            name: String::new(),
            title: String::new(),
            date: frame.date,
            cycle: 1,
        };
        let top =
            Directory { object, seek: BEGIN, parent: TOP, uuid: frame.uuid, slots: Vec::new(), old: None, list: None };
        Ok(Self::of(output, frame, top))
    }

    fn of(output: Output, frame: FileFrame, top: Directory) -> Self {
        let setting = Setting::of_root(i64::from(frame.compress)).unwrap_or(Setting::NONE);
        let (directories, by_path) = (vec![top], HashMap::from([(String::new(), TOP)]));
        let (compressor, published, superseded_bytes) = (Compressor::new(), PublishedFrame::default(), 0);
        Self { output, frame, setting, compressor, directories, by_path, published, superseded_bytes }
    }

    /// Removes a slot from the list of keys.
    pub(crate) fn remove(&mut self, place: SlotId) {
        self.set_slot(place, Slot::Reserved);
    }

    /// Returns the content of a slot, which `restore` can put back.
    pub(crate) fn slot(&self, place: SlotId) -> Slot {
        self.directories[place.directory].slots[place.slot].clone()
    }

    /// Restores the content of a slot.
    pub(crate) fn restore(&mut self, place: SlotId, slot: Slot) {
        self.set_slot(place, slot);
    }

    fn set_slot(&mut self, place: SlotId, slot: Slot) {
        let directory = &mut self.directories[place.directory];
        directory.slots[place.slot] = slot;
        if let Some(list) = &mut directory.list {
            list.note_change(place.slot);
        }
    }

    /// The newest slot of a directory.
    pub(crate) fn last_slot(&self, directory: usize) -> Option<SlotId> {
        let slot = self.directories[directory].slots.len().checked_sub(1)?;
        Some(SlotId { directory, slot })
    }

    /// The output of the file.
    pub(crate) fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    /// The final path of the file.
    pub(crate) fn path(&self) -> String {
        self.output.path().display().to_string()
    }

    /// Returns the output of a complete file.
    pub(crate) fn into_output(self) -> Output {
        self.output
    }

    /// The offset at which the next bytes will be written.
    pub(crate) fn end(&self) -> u64 {
        self.output.end()
    }

    /// The offset of a directory.
    pub(crate) fn seek_of(&self, directory: usize) -> u64 {
        self.directories[directory].seek
    }

    /// Finds a directory by its path, and returns its index.
    pub(crate) fn directory(&self, path: &str) -> Option<usize> {
        self.by_path.get(path).copied()
    }

    /// Creates a directory.
    pub(crate) fn add_directory(&mut self, parent: usize, path: &str, mut object: ObjectName) -> Result<usize> {
        // ROOT's RMiniFileReader opens an RNTuple by its path only if the keys of the directories have this class.
        object.class_name = DIRECTORY.to_string();
        let number = self.directories.len();
        let mut uuid = xxh3_128(&[&self.frame.uuid[..], path.as_bytes()].concat()).to_be_bytes();
        mark_uuid(&mut uuid);
        let seek = self.output.end();
        self.directories.push(Directory { object, seek, parent, uuid, slots: Vec::new(), old: None, list: None });
        let size = self.new_directory(number).size();
        self.output.write(&vec![0; size as usize])?;
        self.directories[parent].slots.push(Slot::Directory(number));
        self.by_path.insert(path.to_string(), number);
        Ok(number)
    }

    /// Reserves a slot in a directory's list of keys for an object that will be written later.
    pub(crate) fn reserve(&mut self, directory: usize) -> SlotId {
        let slots = &mut self.directories[directory].slots;
        slots.push(Slot::Reserved);
        SlotId { directory, slot: slots.len() - 1 }
    }

    /// Reserves the bytes of an object's record for a reserved slot. The object must have exactly this size when it is
    /// written.
    pub(crate) fn reserve_room(&mut self, place: SlotId, object: &ObjectName, size: u64) -> Result<()> {
        let (seek, key_size) = (self.output.end(), self.key_size(place.directory, object));
        self.output.write(&vec![0; (key_size + size) as usize])?;
        self.set_slot(place, Slot::Room { seek, size });
        Ok(())
    }

    /// Writes an object, compressed with the file's setting. `plain` returns the object's bytes, given the size of the
    /// key that precedes them.
    pub(crate) fn write_object<P: AsRef<[u8]>>(
        &mut self,
        place: SlotId,
        object: &ObjectName,
        plain: impl FnOnce(u64) -> Result<P>,
    ) -> Result<()> {
        let mut key = self.key(place.directory, object);
        if let Slot::Room { seek, size } = self.directories[place.directory].slots[place.slot] {
            key.seek = seek;
            let plain = plain(key.size())?;
            let plain = plain.as_ref();
            if plain.len() as u64 == size {
                (key.object_size, key.stored_size) = (size, size);
                let key = key.bytes().map_err(|error| self.error(&error))?;
                self.output.write_at(seek, &[&key[..], plain].concat())?;
                self.set_slot(place, Slot::Key { name: object.name.clone(), bytes: key });
                return Ok(());
            }
            let message = format!("the size of {} differs from the reserved size", object.name);
            return Err(self.error(&FormatError::internal(message)));
        }
        let plain = plain(key.size())?;
        let (plain, mut stored) = (plain.as_ref(), Vec::new());
        let is_smaller = self.compressor.compress(self.setting, plain, &mut stored);
        let stored = if is_smaller { &stored } else { plain };
        (key.object_size, key.stored_size) = (plain.len() as u64, stored.len() as u64);
        self.write_record(place, object, &key.bytes().map_err(|error| self.error(&error))?, stored)
    }

    /// Writes an object whose stored bytes come from another file.
    pub(crate) fn write_stored(
        &mut self,
        place: SlotId,
        object: &ObjectName,
        object_size: u64,
        stored: &[u8],
    ) -> Result<()> {
        let mut key = self.key(place.directory, object);
        (key.object_size, key.stored_size) = (object_size, stored.len() as u64);
        self.write_record(place, object, &key.bytes().map_err(|error| self.error(&error))?, stored)
    }

    /// Returns the size of the key that an object would get if it were written now.
    pub(crate) fn key_size(&self, directory: usize, object: &ObjectName) -> u64 {
        self.key(directory, object).size()
    }

    fn write_record(&mut self, place: SlotId, object: &ObjectName, key: &[u8], stored: &[u8]) -> Result<()> {
        self.output.write_all_of(&mut [IoSlice::new(key), IoSlice::new(stored)])?;
        self.set_slot(place, Slot::Key { name: object.name.clone(), bytes: key.to_vec() });
        Ok(())
    }

    fn key<'a>(&self, directory: usize, object: &'a ObjectName) -> NewKey<'a> {
        NewKey {
            class_name: &object.class_name,
            name: object.name.as_bytes(),
            title: object.title.as_bytes(),
            object_size: 0,
            stored_size: 0,
            date: object.date,
            cycle: object.cycle,
            seek: self.output.end(),
            seek_directory: self.directories[directory].seek,
        }
    }

    fn new_directory(&self, number: usize) -> NewDirectory<'_> {
        let Directory { object, seek, parent, uuid, .. } = &self.directories[number];
        if number == TOP {
            return self.frame.top();
        }
        NewDirectory {
            class_name: &object.class_name,
            name: object.name.as_bytes(),
            title: object.title.as_bytes(),
            date: object.date,
            seek: *seek,
            seek_parent: self.directories[*parent].seek,
            cycle: object.cycle,
            uuid: *uuid,
        }
    }

    /// The current state, for a later rollback.
    pub(crate) fn mark(&self) -> Mark {
        Mark { end: self.output.end(), slots: self.directories.iter().map(|directory| directory.slots.len()).collect() }
    }

    /// Rolls back to an earlier state. The state must not be older than the last publication.
    pub(crate) fn go_back(&mut self, mark: &Mark) -> Result<()> {
        self.output.cut(mark.end)?;
        self.directories.truncate(mark.slots.len());
        self.by_path.retain(|_, number| *number < mark.slots.len());
        for (directory, count) in self.directories.iter_mut().zip(&mark.slots) {
            directory.slots.truncate(*count);
            if let Some(list) = &mut directory.list {
                list.note_removal(*count);
            }
        }
        Ok(())
    }

    /// Removes the last slot of a directory, and everything written after offset `end`.
    pub(crate) fn take_back(&mut self, place: SlotId, end: u64) -> Result<()> {
        self.output.cut(end)?;
        let directory = &mut self.directories[place.directory];
        directory.slots.truncate(place.slot);
        if let Some(list) = &mut directory.list {
            list.note_removal(place.slot);
        }
        Ok(())
    }

    /// Writes the records around the objects, syncs the file to disk and returns the size of the file. `infos` returns
    /// the streamer infos for a key of the given size.
    pub(crate) fn finish(&mut self, infos: impl FnOnce(u64) -> Result<Vec<u8>>) -> Result<u64> {
        self.write_frame(Some(infos), Spacing::Tight)?;
        self.output.sync()?;
        Ok(self.output.end())
    }

    fn error(&self, error: &FormatError) -> ReadError {
        ReadError::from_format(&self.path(), error)
    }
}

/// Sets the bits that make 16 bytes a UUID of version 8 (RFC 9562).
pub(crate) fn mark_uuid(uuid: &mut [u8; 16]) {
    uuid[6] = (uuid[6] & 0x0f) | 0x80;
    uuid[8] = (uuid[8] & 0x3f) | 0x80;
}
