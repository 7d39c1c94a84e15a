//! Writes the records around the objects of a file: streamer infos, lists of keys, free space, directories and the
//! header. The records are updated after each object, and the file is valid at every point in time, because new records
//! are appended first, and the header and the key counts are updated last.

use std::collections::{HashMap, HashSet};

use branchline_format::write::RecordPlace;

use crate::error::Result;
use crate::write::new_file::{
    Directory, KeyList, NewFile, ObjectName, OldDirectory, PublishedFrame, Slot, Spacing, TOP,
};

/// Minimum number of free bytes at the end of a key list.
const KEY_ROOM_MIN_BYTES: u64 = 1024;

/// Records that have been written but are not referenced yet.
struct NewRecords {
    infos: Option<RecordPlace>,
    free: RecordPlace,
    changes: Vec<(usize, ListChange)>,
}

/// A change to a directory's key list.
enum ListChange {
    /// A new list, which has already been written.
    Other(KeyList),
    /// Keys that were appended to the list but are not yet included in its key count.
    More { keys_end: u64, names: Vec<String> },
}

impl NewFile {
    /// Updates the records around the objects, so that the file is valid and contains all objects. `infos` returns the
    /// streamer infos for a key of the given size; if it is None, the current streamer infos are kept. If this fails,
    /// the file is unchanged.
    pub(crate) fn write_frame(
        &mut self,
        infos: Option<impl FnOnce(u64) -> Result<Vec<u8>>>,
        spacing: Spacing,
    ) -> Result<()> {
        let end = self.output.end();
        match self.new_records(infos, spacing) {
            Ok(records) => self.point_to(records),
            Err(error) => {
                self.output.cut(end)?;
                Err(error)
            }
        }
    }

    /// Appends the new records, and writes new keys into the free bytes of key lists.
    fn new_records(
        &mut self,
        infos: Option<impl FnOnce(u64) -> Result<Vec<u8>>>,
        spacing: Spacing,
    ) -> Result<NewRecords> {
        let infos = infos.map(|infos| self.write_infos(infos)).transpose()?;
        let mut changes = Vec::new();
        for number in 0..self.directories.len() {
            if let Some(change) = self.change_list(number, spacing)? {
                changes.push((number, change));
            }
        }
        let free = match self.published.free {
            Some(free) => free,
            None => self.reserve_free_list(spacing)?,
        };
        for (number, change) in &changes {
            if self.directories[*number].list.is_none() {
                self.write_directory(*number, change)?;
            }
        }
        Ok(NewRecords { infos, free, changes })
    }

    /// Updates the references to the new records: first the header, then the key lists.
    fn point_to(&mut self, NewRecords { infos, free, changes }: NewRecords) -> Result<()> {
        let is_big = free.size == self.frame.free_list_size(free.seek, true);
        let list = self.frame.free_list(free.seek, self.output.end(), is_big).map_err(|error| self.error(&error))?;
        self.output.write_at(free.seek, &list)?;
        let before = self.published.infos;
        let infos_now = infos.or(before).unwrap_or(RecordPlace { seek: 0, size: 0 });
        let header = match self.directories[TOP].old {
            Some(OldDirectory { name_size }) => self.frame.header_above(self.output.end(), free, infos_now, name_size),
            None => self.frame.header(self.output.end(), free, infos_now),
        };
        let header = header.map_err(|error| self.error(&error))?;
        self.output.write_at(0, &header)?;
        for (number, change) in changes {
            self.apply(number, change)?;
        }
        if let Some(before) = before.filter(|_| infos.is_some()) {
            self.superseded_bytes += before.size;
        }
        self.published = PublishedFrame { infos: Some(infos_now), free: Some(free) };
        Ok(())
    }

    /// Total size of the records that are no longer referenced.
    pub(crate) fn superseded_bytes(&self) -> u64 {
        self.superseded_bytes
    }

    /// Adds `bytes` to the size of the records that are no longer referenced.
    pub(crate) fn supersede(&mut self, bytes: u64) {
        self.superseded_bytes += bytes;
    }

    fn write_infos(&mut self, infos: impl FnOnce(u64) -> Result<Vec<u8>>) -> Result<RecordPlace> {
        let object = ObjectName {
            class_name: "TList".to_string(),
            name: "StreamerInfo".to_string(),
            title: "Doubly linked list".to_string(),
            date: self.frame.date,
            cycle: 1,
        };
        let seek = self.output.end();
        // No list contains the key of this object, so remove its slot afterwards.
        let place = self.reserve(TOP);
        let written = self.write_object(place, &object, infos);
        self.directories[TOP].slots.pop();
        written?;
        Ok(RecordPlace { seek, size: self.output.end() - seek })
    }

    /// Appends new keys to the key list of a directory, or writes a new list. Returns None if the list needs no change.
    fn change_list(&mut self, number: usize, spacing: Spacing) -> Result<Option<ListChange>> {
        let Some(list) = &self.directories[number].list else { return self.write_list(number, spacing).map(Some) };
        let new_slots = &self.directories[number].slots[list.slots_count..];
        if new_slots.is_empty() && !list.is_stale {
            return Ok(None);
        }
        let (mut keys, mut names) = (Vec::new(), Vec::new());
        for slot in new_slots {
            // A slot without a key, or a repeated name, requires a new list.
            let (Some(name), Some(key)) = (self.name_of(slot), self.key_of(slot)?) else {
                return self.write_list(number, spacing).map(Some);
            };
            names.push(name.to_string());
            keys.extend(key);
        }
        let distinct: HashSet<&String> = names.iter().collect();
        let are_new = distinct.len() == names.len() && names.iter().all(|name| !list.names.contains(name));
        let keys_end = list.keys_end + keys.len() as u64;
        if list.is_stale || !are_new || keys_end > list.place.seek + list.place.size {
            return self.write_list(number, spacing).map(Some);
        }
        let offset = list.keys_end;
        self.output.write_at(offset, &keys)?;
        Ok(Some(ListChange::More { keys_end, names }))
    }

    fn write_list(&mut self, number: usize, spacing: Spacing) -> Result<ListChange> {
        let Directory { slots, .. } = &self.directories[number];
        let (mut keys, mut names) = (Vec::with_capacity(slots.len()), HashSet::new());
        for slot in newest_keys_first(slots) {
            if let Some(key) = self.key_of(slot)? {
                keys.push(key);
                if spacing == Spacing::Roomy {
                    names.extend(self.name_of(slot).map(str::to_string));
                }
            }
        }
        let room = match spacing {
            Spacing::Tight => 0,
            Spacing::Roomy => keys.iter().map(|key| key.len() as u64).sum::<u64>().max(KEY_ROOM_MIN_BYTES),
        };
        let seek = self.output.end();
        let record = self.new_directory(number).key_list(seek, &keys, room).map_err(|error| self.error(&error))?;
        let slots_count = slots.len();
        self.output.write(&record.bytes)?;
        Ok(ListChange::Other(KeyList {
            place: RecordPlace { seek, size: record.bytes.len() as u64 },
            count_offset: seek + record.count_offset,
            keys_end: seek + record.keys_end,
            keys_count: keys.len(),
            slots_count,
            names,
            is_stale: false,
        }))
    }

    /// Returns the key of a slot. Returns None if the object of the slot has not been written.
    fn key_of(&self, slot: &Slot) -> Result<Option<Vec<u8>>> {
        match slot {
            Slot::Key { bytes, .. } => Ok(Some(bytes.clone())),
            Slot::Directory(number) => {
                self.new_directory(*number).key_bytes().map(Some).map_err(|error| self.error(&error))
            }
            Slot::Reserved | Slot::Room { .. } => Ok(None),
        }
    }

    fn name_of<'a>(&'a self, slot: &'a Slot) -> Option<&'a str> {
        match slot {
            Slot::Key { name, .. } => Some(name),
            Slot::Directory(number) => Some(&self.directories[*number].object.name),
            Slot::Reserved | Slot::Room { .. } => None,
        }
    }

    /// Reserves the bytes for the record of free space.
    fn reserve_free_list(&mut self, spacing: Spacing) -> Result<RecordPlace> {
        let seek = self.output.end();
        let is_big = spacing == Spacing::Roomy || self.frame.has_big_free_list(seek);
        let size = self.frame.free_list_size(seek, is_big);
        self.output.write(&vec![0; size as usize])?;
        Ok(RecordPlace { seek, size })
    }

    /// Writes the record of a directory, which points to the directory's key list.
    fn write_directory(&mut self, number: usize, change: &ListChange) -> Result<()> {
        let ListChange::Other(KeyList { place, .. }) = change else { return Ok(()) };
        let directory = self.new_directory(number);
        let (seek, record) = match self.directories[number].old {
            Some(OldDirectory { name_size }) => (directory.seek + name_size, directory.places(name_size, *place)),
            None => (directory.seek, directory.record(*place)),
        };
        let record = record.map_err(|error| self.error(&error))?;
        self.output.write_at(seek, &record)
    }

    /// Publishes a change to a key list.
    fn apply(&mut self, number: usize, change: ListChange) -> Result<()> {
        if self.directories[number].list.is_some() {
            self.write_directory(number, &change)?;
        }
        let slots_count = self.directories[number].slots.len();
        match (change, &mut self.directories[number].list) {
            (ListChange::Other(list), before) => {
                self.superseded_bytes += before.as_ref().map_or(0, |before| before.place.size);
                *before = Some(list);
            }
            (ListChange::More { keys_end, names }, Some(list)) => {
                let keys_count = list.keys_count + names.len();
                self.output.write_at(list.count_offset, &(keys_count as u32).to_be_bytes())?;
                list.names.extend(names);
                (list.keys_end, list.keys_count, list.slots_count) = (keys_end, keys_count, slots_count);
            }
            (ListChange::More { .. }, None) => {}
        }
        Ok(())
    }
}

/// Sorts the slots of a directory, given from oldest to newest, into the order of a key list. ROOT takes the first key
/// of a name as the newest.
fn newest_keys_first(slots: &[Slot]) -> Vec<&Slot> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::with_capacity(slots.len());
    for (place, slot) in slots.iter().enumerate() {
        if let Slot::Key { name, .. } = slot {
            places.entry(name).or_default().push(place);
        }
    }
    let mut listed: Vec<&Slot> = slots.iter().collect();
    for same in places.values() {
        for (place, from) in same.iter().zip(same.iter().rev()) {
            listed[*place] = &slots[*from];
        }
    }
    listed
}
