//! TDirectory: the keys of a directory, and the paths of all keys of a file.
//!
//! ```
//! use branchline_format::file::directory::newest_first;
//!
//! // ROOT inserts a new key at the front of the list, uproot appends it to the end.
//! let mut by_root = [("x", 2), ("x", 1)];
//! let mut by_uproot = [("x", 1), ("x", 2)];
//! newest_first(&mut by_root, |key| key.1);
//! newest_first(&mut by_uproot, |key| key.1);
//! assert_eq!(by_root, by_uproot);
//! ```

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use crate::cursor::Cursor;
use crate::error::{FormatError, Result};
use crate::file::loaded_bytes::{DecodeError, LoadedBytes, MissingRange};
use crate::file::{parse_key, read_key_at, seek, FileHeader, TKey, KEY_SIZE_MIN};
use crate::marks::BIG_VERSION;

/// Upper bound of the size of a directory's record, excluding its key.
const DIRECTORY_SIZE_MAX: u64 = 60;
/// Maximum nesting depth of directories. Deeper directories are assumed to form a cycle.
const DEPTH_MAX: usize = 64;
/// Maximum total size of keys and paths, as a multiple of the file size (paths repeat directory names). Without a
/// limit, directories that list each other could yield any number of keys.
const KEYS_FACTOR_MAX: u64 = 16;
/// Maximum total size of keys and paths in bytes, regardless of the file size.
const KEYS_SIZE_MAX: u64 = 4 << 30;
/// Maximum size of the first request for a list of keys. The size that the directory declares is unverified; the list's
/// own key has the exact size.
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

    /// The keys, in the order of the directory's list.
    pub fn keys(&self) -> &[TKey] {
        &self.keys
    }

    /// The keys with this name (one per cycle), newest first.
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

/// Sort the keys of one name, given in the order of their directory's list, from newest to oldest.
///
/// ROOT inserts a key before older keys of the same name, and `TDirectory::Get` takes the first key
/// (TDirectoryFile::AppendKey). Sorting by cycle number would be wrong, because cycle -32768 follows 32767. uproot
/// appends keys instead, so a list with increasing cycles is reversed.
pub fn newest_first<T>(keys: &mut [T], cycle: impl Fn(&T) -> i16) {
    if keys.windows(2).all(|pair| cycle(&pair[0]).checked_add(1) == Some(cycle(&pair[1]))) {
        keys.reverse();
    }
}

/// Whether the key's object is a directory.
pub fn is_directory(key: &TKey) -> bool {
    matches!(key.class_name.as_str(), "TDirectory" | "TDirectoryFile")
}

/// A resumable reader of a directory. Continues at the point where bytes were missing.
#[derive(Debug, Clone)]
struct DirectoryReader {
    /// Name of the directory in error messages.
    name: String,
    state: State,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// The directory's record has not been read; `offset` is its position.
    Record { offset: u64 },
    /// The list of keys has not been read; `offset` is its position and `size` its approximate size.
    List { offset: u64, size: u64 },
}

impl DirectoryReader {
    /// Create a reader for the top directory of a file.
    fn of_file(header: &FileHeader) -> Self {
        Self { name: "top directory".to_string(), state: State::Record { offset: header.directory_offset() } }
    }

    /// Create a reader for the directory that `key` refers to, at the given path.
    fn of_key(key: &TKey, path: &str) -> Self {
        let offset = key.seek.saturating_add(key.key_size);
        Self { name: format!("directory {path}"), state: State::Record { offset } }
    }

    /// Read as far as the bytes in memory allow.
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
                // Request the whole list at once. No second request is needed if the declared size is right.
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

/// Parse a directory's record and return the offset and size of its list of keys (TDirectoryFile::Streamer).
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

/// Read a list of keys. `size` is the size that the directory declares (TDirectoryFile::ReadKeys).
fn read_list(loaded: &LoadedBytes, offset: u64, size: u64) -> std::result::Result<Vec<TKey>, DecodeError> {
    let head = read_key_at(loaded, offset)?;
    // uproot 3 never updates the record size in the list's key. It updates only the object size in that key, and the
    // size in the directory, which ROOT uses. A list of keys is never compressed.
    let record = loaded.get(offset, head.size.max(size.min(head.key_size.saturating_add(head.object_size))))?;
    let named = |error: FormatError| error.in_object("list of keys");
    let mut cursor = Cursor::at(record, head.key_size as usize);
    let count = i64::from(cursor.i32().map_err(named)?);
    let count = cursor.checked_count(count, KEY_SIZE_MIN as usize).map_err(named)?;
    (0..count).map(|_| parse_key(&mut cursor).map_err(|error| named(error).into())).collect()
}

/// A key and its path.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Names of the enclosing directories and of the key, joined with `/`.
    pub path: String,
    /// The key.
    pub key: TKey,
}

/// The directories of a file. Each directory is read on first use.
#[derive(Debug)]
pub struct Directories {
    /// Directories already read, by the offset of their record. The top directory is stored at [`TOP`].
    known: HashMap<u64, Directory>,
    reading: HashMap<u64, DirectoryReader>,
    file_size: u64,
}

/// Key of the top directory in maps by offset; no record is at offset 0.
const TOP: u64 = 0;

impl Directories {
    /// Prepare to read the directories of a file, without reading any yet.
    pub fn new(header: &FileHeader, file_size: u64) -> Self {
        let reading = HashMap::from([(TOP, DirectoryReader::of_file(header))]);
        Self { known: HashMap::new(), reading, file_size }
    }

    /// Create the directories of a file whose top directory has no list of keys. `keys` are the keys found by scanning
    /// the file's records.
    pub fn recovered(keys: Vec<TKey>, file_size: u64) -> Self {
        Self { known: HashMap::from([(TOP, Directory::new(keys))]), reading: HashMap::new(), file_size }
    }

    /// Read the directories with this path (`""` for the top directory) and all their subdirectories, as far as the
    /// bytes in memory allow. Returns the missing ranges, sorted; the result is empty once all directories are read.
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

    /// The record offsets of all directories with this path, one per cycle.
    fn directories_at(&mut self, path: &str, loaded: &LoadedBytes) -> std::result::Result<Vec<u64>, DecodeError> {
        if path.is_empty() {
            return Ok(vec![TOP]);
        }
        let keys = self.find(path, loaded)?;
        let directories = keys.iter().filter(|key| is_directory(key));
        directories.clone().for_each(|key| begin_reading(&self.known, &mut self.reading, key, path));
        Ok(directories.map(|key| key.seek).collect())
    }

    /// The keys in the directories with this path (`""` for the top directory), excluding keys in subdirectories.
    pub fn keys_in(&mut self, path: &str, loaded: &LoadedBytes) -> std::result::Result<Vec<TKey>, DecodeError> {
        let mut keys = Vec::new();
        for seek in self.directories_at(path, loaded)? {
            self.read(seek, loaded)?;
            keys.extend(self.known.get(&seek).into_iter().flat_map(Directory::keys).cloned());
        }
        Ok(keys)
    }

    /// Continue reading the directory whose record is at `seek`.
    fn read(&mut self, seek: u64, loaded: &LoadedBytes) -> std::result::Result<(), DecodeError> {
        if let Some(reader) = self.reading.get_mut(&seek) {
            let directory = reader.read(loaded)?;
            self.reading.remove(&seek);
            self.known.insert(seek, directory);
        }
        Ok(())
    }

    /// The keys with this path, one per cycle. Reads only the directories along the path.
    pub fn find(&mut self, path: &str, loaded: &LoadedBytes) -> std::result::Result<Vec<TKey>, DecodeError> {
        let mut found = Vec::new();
        // Names may contain slashes, so there are several ways to split a path. Each route is a directory and the rest
        // of the path.
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

    /// All keys below the directories with this path. Each directory comes before its contents. Call
    /// [`Directories::read_below`] first, until no range is missing. Fails if directories form a cycle or list more
    /// keys than the file size allows.
    pub fn entries_below(&mut self, path: &str, loaded: &LoadedBytes) -> Result<Vec<Entry>> {
        let seeks = self.directories_at(path, loaded).map_err(|error| match error {
            DecodeError::Format(error) => error,
            DecodeError::MissingBytes { offset, .. } => FormatError::internal(format!(
                "the keys of the directory at offset {offset} were listed before it was read"
            )),
        })?;
        let room = self.file_size.saturating_mul(KEYS_FACTOR_MAX).min(KEYS_SIZE_MAX);
        let mut walk = Walk { directories: self, room, entries: Vec::new() };
        seeks.into_iter().try_for_each(|seek| walk.add(seek, path, 0))?;
        Ok(walk.entries)
    }
}

/// Add a reader for the directory that `key` refers to, unless the directory is known or already being read.
fn begin_reading(known: &HashMap<u64, Directory>, reading: &mut HashMap<u64, DirectoryReader>, key: &TKey, path: &str) {
    if !known.contains_key(&key.seek) {
        reading.entry(key.seek).or_insert_with(|| DirectoryReader::of_key(key, path));
    }
}

/// State of the recursive listing of a directory.
struct Walk<'w> {
    directories: &'w Directories,
    /// Number of bytes left for further keys and paths.
    room: u64,
    entries: Vec<Entry>,
}

impl Walk<'_> {
    fn add(&mut self, seek: u64, prefix: &str, depth: usize) -> Result<()> {
        if depth > DEPTH_MAX {
            return Err(FormatError::damaged(seek, format!("the directories form a loop: {}", shortened(prefix))));
        }
        for key in self.directories.known.get(&seek).map_or(&[][..], Directory::keys) {
            let path = if prefix.is_empty() { key.name.clone() } else { [prefix, "/", &key.name].concat() };
            self.room = self.room.checked_sub(KEY_SIZE_MIN + path.len() as u64).ok_or_else(|| {
                FormatError::damaged(key.seek, "the directories list more keys than fit into the file")
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

    /// Create [`Directories`] that are already read, from record offsets and keys.
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
        assert_eq!(found(&[-32768, 32767]), [-32768, 32767], "after the last positive number");
        assert_eq!(found(&[2, -1, -2]), [2, -1, -2], "after the last negative number");
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
        assert!(error.message.contains("than fit into the file"), "{error}");
    }
}
