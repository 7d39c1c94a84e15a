//! TDirectory: the keys in a directory, and the paths of all keys of a file.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use crate::cursor::Cursor;
use crate::error::{FormatError, Result};
use crate::file::loaded_bytes::{DecodeError, LoadedBytes, MissingRange};
use crate::file::{parse_key, read_key_at, seek, FileHeader, TKey, KEY_SIZE_MIN};
use crate::marks::BIG_VERSION;

/// Bytes that hold any directory's record behind its key.
const DIRECTORY_SIZE_MAX: u64 = 60;
/// Directories nested deeper than this are taken for a loop.
const DEPTH_MAX: usize = 64;
/// Keys and paths may take this many times the bytes of the file, as names of directories are repeated in paths, and
/// never more than the second: directories that list each other, level by level, would make any number of them.
const KEYS_FACTOR_MAX: u64 = 16;
const KEYS_SIZE_MAX: u64 = 4 << 30;
/// A list of keys is fetched with the size that its directory says, up to this one; the list has its exact size.
const LIST_GUESS_MAX: u64 = 1 << 20;

/// A directory.
#[derive(Debug, Default)]
pub struct Directory {
    keys: Vec<TKey>,
    by_name: OnceLock<HashMap<String, Vec<usize>>>,
}

impl Directory {
    fn new(keys: Vec<TKey>) -> Self {
        Self { keys, by_name: OnceLock::new() }
    }

    /// Its keys, in the order of their list.
    pub fn keys(&self) -> &[TKey] {
        &self.keys
    }

    /// Its keys with this name, one for each cycle, the newest first.
    pub fn named(&self, name: &str) -> impl Iterator<Item = &TKey> {
        let by_name = self.by_name.get_or_init(|| {
            let mut by_name: HashMap<String, Vec<usize>> = HashMap::with_capacity(self.keys.len());
            for (index, key) in self.keys.iter().enumerate() {
                by_name.entry(key.name.clone()).or_default().push(index);
            }
            by_name.values_mut().for_each(|places| newest_first(places, |place| self.keys[*place].cycle));
            by_name
        });
        by_name.get(name).into_iter().flatten().map(|index| &self.keys[*index])
    }
}

/// Orders the keys of one name, given in the order of their directory's list, from newest to oldest.
///
/// ROOT inserts a key before the older keys of its name, and `TDirectory::Get` takes the first
/// (TDirectoryFile::AppendKey). The numbers do not tell: -32768 follows 32767. uproot appends keys instead, so that
/// their cycles ascend one by one.
pub fn newest_first<T>(keys: &mut [T], cycle: impl Fn(&T) -> i16) {
    if keys.windows(2).all(|pair| cycle(&pair[0]).checked_add(1) == Some(cycle(&pair[1]))) {
        keys.reverse();
    }
}

/// Whether the object of a key is a directory.
pub fn is_directory(key: &TKey) -> bool {
    matches!(key.class_name.as_str(), "TDirectory" | "TDirectoryFile")
}

/// The reading of a directory, which continues where it stopped when bytes were missing.
#[derive(Debug, Clone)]
struct DirectoryReader {
    /// Its name in errors.
    name: String,
    state: State,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// The record of the directory lies here.
    Record { offset: u64 },
    /// The list of its keys lies here and has about this size.
    List { offset: u64, size: u64 },
}

impl DirectoryReader {
    /// Reads the top directory of a file.
    fn of_file(header: &FileHeader) -> Self {
        Self { name: "top directory".to_string(), state: State::Record { offset: header.directory_offset() } }
    }

    /// Reads the directory of a key, which is called `path`.
    fn of_key(key: &TKey, path: &str) -> Self {
        let offset = key.seek.saturating_add(key.key_size);
        Self { name: format!("directory {path}"), state: State::Record { offset } }
    }

    /// Reads as far as the bytes that are there allow.
    fn read(&mut self, loaded: &LoadedBytes) -> std::result::Result<Directory, DecodeError> {
        let named = |error: FormatError| DecodeError::Format(error.in_object(&self.name));
        if let State::Record { offset } = self.state {
            let bytes = loaded.get_up_to(offset, DIRECTORY_SIZE_MAX)?;
            let (offset, size) = parse_record(bytes).map_err(named)?;
            self.state = State::List { offset, size };
        }
        match self.state {
            // A directory that was never written has no list.
            State::Record { .. } | State::List { offset: 0, .. } => Ok(Directory::default()),
            State::List { offset, size } => {
                // Requests all of the list at once: where the recorded size is right, no second request is needed.
                if size > 0 && offset < loaded.file_size() {
                    loaded.get_up_to(offset, size.min(LIST_GUESS_MAX))?;
                }
                read_list(loaded, offset, size).map(Directory::new).map_err(|error| match error {
                    DecodeError::Format(error) => named(error),
                    missing @ DecodeError::MissingBytes { .. } => missing,
                })
            }
        }
    }
}

/// Offset and size in bytes of a directory's list of keys, from the directory's record (TDirectoryFile::Streamer).
fn parse_record(bytes: &[u8]) -> Result<(u64, u64)> {
    let mut cursor = Cursor::new(bytes);
    let version = cursor.i16()?;
    cursor.skip(8)?; // fDatimeC, fDatimeM
    let keys_size = cursor.i32()?;
    let _name_size = cursor.i32()?;
    let big = version > BIG_VERSION;
    let _seek_directory = seek(&mut cursor, big)?;
    let _seek_parent = seek(&mut cursor, big)?;
    let offset = seek(&mut cursor, big)?;
    Ok((offset, u64::try_from(keys_size).unwrap_or(0)))
}

/// Reads a list of keys, which has `size` bytes by its directory (TDirectoryFile::ReadKeys).
fn read_list(loaded: &LoadedBytes, offset: u64, size: u64) -> std::result::Result<Vec<TKey>, DecodeError> {
    let head = read_key_at(loaded, offset)?;
    // uproot 3 never updates the record's size in the key of the list, only the size of its content and the one in the
    // directory, which is the one that ROOT uses. A list of keys is never compressed.
    let record = loaded.get(offset, head.size.max(size.min(head.key_size.saturating_add(head.object_size))))?;
    let named = |error: FormatError| error.in_object("list of keys");
    let mut cursor = Cursor::at(record, head.key_size as usize);
    let count = i64::from(cursor.i32().map_err(named)?);
    let count = cursor.checked_count(count, KEY_SIZE_MIN as usize).map_err(named)?;
    (0..count).map(|_| parse_key(&mut cursor).map_err(|error| named(error).into())).collect()
}

/// A key with the path of directories that leads to it.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Directories and name, joined with `/`.
    pub path: String,
    /// The key.
    pub key: TKey,
}

/// The directories of a file, each read when it is first needed.
#[derive(Debug)]
pub struct Directories {
    /// Directories that were read, by the offset of their record; the top one is at [`TOP`].
    known: HashMap<u64, Directory>,
    reading: HashMap<u64, DirectoryReader>,
    file_size: u64,
}

/// Stands for the offset of the top directory, which has no key in another one.
const TOP: u64 = 0;

impl Directories {
    /// None is read yet.
    pub fn new(header: &FileHeader, file_size: u64) -> Self {
        let reading = HashMap::from([(TOP, DirectoryReader::of_file(header))]);
        Self { known: HashMap::new(), reading, file_size }
    }

    /// A file whose top directory has no list of keys: these were found by walking over its records.
    pub fn recovered(keys: Vec<TKey>, file_size: u64) -> Self {
        Self { known: HashMap::from([(TOP, Directory::new(keys))]), reading: HashMap::new(), file_size }
    }

    /// Reads the directories with this path (the top one is `""`) and all below them, as far as the bytes in memory
    /// allow. Returns the ranges that are missing, sorted; none when all are read.
    pub fn read_below(&mut self, path: &str, loaded: &LoadedBytes) -> Result<Vec<MissingRange>> {
        let mut missing = Vec::new();
        let mut note_missing = |error| match error {
            DecodeError::MissingBytes { offset, size } => {
                missing.push(MissingRange { offset, size });
                Ok(())
            }
            DecodeError::Format(error) => Err(error),
        };
        let mut waiting = match self.directories_at(path, loaded) {
            Ok(seeks) => seeks,
            Err(error) => {
                note_missing(error)?;
                Vec::new()
            }
        };
        let mut queued: HashSet<u64> = waiting.iter().copied().collect();
        while let Some(seek) = waiting.pop() {
            if let Err(error) = self.read(seek, loaded) {
                note_missing(error)?;
                continue;
            }
            for key in self.known.get(&seek).into_iter().flat_map(Directory::keys).filter(|key| is_directory(key)) {
                if queued.insert(key.seek) {
                    begin_reading(&self.known, &mut self.reading, key, &key.name);
                    waiting.push(key.seek);
                }
            }
        }
        missing.sort_unstable();
        Ok(missing)
    }

    /// The offsets of the keys of the directories with this path, one for each cycle.
    fn directories_at(&mut self, path: &str, loaded: &LoadedBytes) -> std::result::Result<Vec<u64>, DecodeError> {
        if path.is_empty() {
            return Ok(vec![TOP]);
        }
        let keys = self.find(path, loaded)?;
        let directories = keys.iter().filter(|key| is_directory(key));
        directories.clone().for_each(|key| begin_reading(&self.known, &mut self.reading, key, path));
        Ok(directories.map(|key| key.seek).collect())
    }

    /// The keys in the directories with this path (the top one is `""`), without those of subdirectories.
    pub fn keys_in(&mut self, path: &str, loaded: &LoadedBytes) -> std::result::Result<Vec<TKey>, DecodeError> {
        let mut keys = Vec::new();
        for seek in self.directories_at(path, loaded)? {
            self.read(seek, loaded)?;
            keys.extend(self.known.get(&seek).into_iter().flat_map(Directory::keys).cloned());
        }
        Ok(keys)
    }

    /// Continues to read the directory whose key is at `seek`.
    fn read(&mut self, seek: u64, loaded: &LoadedBytes) -> std::result::Result<(), DecodeError> {
        if let Some(reader) = self.reading.get_mut(&seek) {
            let directory = reader.read(loaded)?;
            self.reading.remove(&seek);
            self.known.insert(seek, directory);
        }
        Ok(())
    }

    /// The keys with this path, one for each cycle. Only the directories that lead there are read.
    pub fn find(&mut self, path: &str, loaded: &LoadedBytes) -> std::result::Result<Vec<TKey>, DecodeError> {
        let mut found = Vec::new();
        // Names may have slashes in them, so the path may be split in several ways: each route is a directory and the
        // rest of the path.
        let mut routes = vec![(TOP, path)];
        let mut visited: HashSet<(u64, usize)> = HashSet::new();
        while let Some((seek, rest)) = routes.pop() {
            if !visited.insert((seek, rest.len())) {
                continue;
            }
            self.read(seek, loaded)?;
            let Some(directory) = self.known.get(&seek) else { continue };
            found.extend(directory.named(rest).cloned());
            for (slash, _) in rest.match_indices('/') {
                for key in directory.named(&rest[..slash]).filter(|key| is_directory(key)) {
                    begin_reading(&self.known, &mut self.reading, key, &path[..path.len() - rest.len() + slash]);
                    routes.push((key.seek, &rest[slash + 1..]));
                }
            }
        }
        Ok(found)
    }

    /// All keys below the directories with this path, a directory before what is in it. [`Directories::read_below`]
    /// must have read them all. Fails for directories that are nested in a loop or list more keys than the file can
    /// have.
    pub fn entries_below(&mut self, path: &str, loaded: &LoadedBytes) -> Result<Vec<Entry>> {
        let seeks = self.directories_at(path, loaded).map_err(|error| match error {
            DecodeError::Format(error) => error,
            DecodeError::MissingBytes { offset, .. } => FormatError::internal(format!(
                "the directory at offset {offset} was not read before its keys were listed"
            )),
        })?;
        let room = self.file_size.saturating_mul(KEYS_FACTOR_MAX).min(KEYS_SIZE_MAX);
        let mut walk = Walk { directories: self, room, entries: Vec::new() };
        seeks.into_iter().try_for_each(|seek| walk.add(seek, path, 0))?;
        Ok(walk.entries)
    }
}

/// Adds a reader of the directory of a key, unless it is known or being read.
fn begin_reading(known: &HashMap<u64, Directory>, reading: &mut HashMap<u64, DirectoryReader>, key: &TKey, path: &str) {
    if !known.contains_key(&key.seek) {
        reading.entry(key.seek).or_insert_with(|| DirectoryReader::of_key(key, path));
    }
}

/// The list of all keys below a directory, while it is made.
struct Walk<'w> {
    directories: &'w Directories,
    /// Bytes that further keys and paths may take.
    room: u64,
    entries: Vec<Entry>,
}

impl Walk<'_> {
    fn add(&mut self, seek: u64, prefix: &str, depth: usize) -> Result<()> {
        if depth > DEPTH_MAX {
            return Err(FormatError::damaged(seek, format!("directories are nested in a loop: {}", shortened(prefix))));
        }
        for key in self.directories.known.get(&seek).map_or(&[][..], Directory::keys) {
            let path = if prefix.is_empty() { key.name.clone() } else { [prefix, "/", &key.name].concat() };
            self.room = self.room.checked_sub(KEY_SIZE_MIN + path.len() as u64).ok_or_else(|| {
                FormatError::damaged(key.seek, "the directories list more keys than the file has room for")
            })?;
            let inside = is_directory(key).then(|| path.clone());
            self.entries.push(Entry { path, key: key.clone() });
            if let Some(path) = inside {
                self.add(key.seek, &path, depth + 1)?;
            }
        }
        Ok(())
    }
}

fn shortened(path: &str) -> String {
    let start: String = path.chars().take(60).collect();
    if start.len() < path.len() {
        start + "..."
    } else {
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, class_name: &str, seek: u64) -> TKey {
        let (class_name, name) = (class_name.to_string(), name.to_string());
        TKey {
            size: 50,
            object_size: 10,
            key_size: 40,
            cycle: 1,
            date: 0,
            seek,
            class_name,
            name,
            title: String::new(),
        }
    }

    /// Directories that are all read: their offsets and keys.
    fn directories(known: Vec<(u64, Vec<TKey>)>, file_size: u64) -> Directories {
        let known = known.into_iter().map(|(place, keys)| (place, Directory::new(keys))).collect();
        Directories { known, reading: HashMap::new(), file_size }
    }

    #[test]
    fn a_directory_comes_before_what_is_in_it() {
        let top = vec![key("a", "TDirectoryFile", 1), key("b", "TDirectory", 2), key("c", "TH1F", 3)];
        let mut all = directories(vec![(TOP, top), (1, vec![key("tree", "TTree", 5)]), (2, Vec::new())], 1000);
        let entries = all.entries_below("", &LoadedBytes::new(1000)).unwrap();
        let paths: Vec<&str> = entries.iter().map(|entry| entry.path.as_str()).collect();
        assert_eq!(paths, ["a", "a/tree", "b", "c"]);
    }

    #[test]
    fn the_newest_key_of_a_name_is_found_first() {
        let found = |cycles: &[i16]| {
            let keys = cycles.iter().map(|cycle| TKey { cycle: *cycle, ..key("a", "TTree", 1) }).collect();
            let mut all = directories(vec![(TOP, keys)], 1000);
            let found = all.find("a", &LoadedBytes::new(1000)).unwrap();
            found.iter().map(|key| key.cycle).collect::<Vec<_>>()
        };
        assert_eq!(found(&[3, 2, 1]), [3, 2, 1], "ROOT");
        assert_eq!(found(&[1, 2, 3]), [3, 2, 1], "uproot");
        assert_eq!(found(&[-32768, 32767]), [-32768, 32767], "behind the last positive number");
        assert_eq!(found(&[2, -1, -2]), [2, -1, -2], "behind the last negative number");
        assert_eq!(found(&[5, 32767]), [5, 32767], "where others were removed");
    }

    #[test]
    fn names_with_slashes_are_found() {
        let top = vec![key("a/b", "TDirectory", 1), key("a", "TDirectory", 2)];
        let known = vec![(TOP, top), (1, vec![key("c", "TTree", 5)]), (2, vec![key("b/c", "TTree", 6)])];
        let mut all = directories(known, 1000);
        let loaded = LoadedBytes::new(1000);
        let mut seeks = |path| all.find(path, &loaded).unwrap().iter().map(|key| key.seek).collect::<Vec<_>>();
        assert_eq!(seeks("a/b/c"), [5, 6]);
        assert_eq!(seeks("a/b"), [1]);
        assert_eq!(seeks("a/c"), [] as [u64; 0]);
    }

    #[test]
    fn a_directory_in_itself_is_refused() {
        let mut all =
            directories(vec![(TOP, vec![key("d", "TDirectory", 1)]), (1, vec![key("d", "TDirectory", 1)])], 1 << 30);
        let error = all.entries_below("", &LoadedBytes::new(1)).unwrap_err();
        assert!(error.message.contains("loop"), "{error}");
    }

    #[test]
    fn directories_that_list_each_other_make_no_more_keys_than_the_file_has_room_for() {
        let level = |place| (place, (0..100).map(|_| key("d", "TDirectory", place + 1)).collect());
        let error =
            directories((0..20).map(level).collect(), 1_000_000).entries_below("", &LoadedBytes::new(1)).unwrap_err();
        assert!(error.message.contains("room"), "{error}");
    }
}
