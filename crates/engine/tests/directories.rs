//! Tests files with thousands of directories: finding a path reads only the directories along the path, and listing all
//! keys reads the directories in few requests.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use branchline_engine::error::ReadErrorKind;
use branchline_engine::file::File;
use branchline_storage::Access;
use branchline_trace::Counter;

/// Offset of the first record in a file.
const BEGIN: usize = 100;

/// Builds a ROOT file with 64-bit offsets.
struct Builder {
    bytes: Vec<u8>,
}

/// The key of a record for a list of keys: class, name, offset and size.
#[derive(Clone)]
struct Listed {
    class_name: &'static str,
    name: String,
    seek: usize,
    size: usize,
}

fn text(text: &str) -> Vec<u8> {
    [&[text.len() as u8][..], text.as_bytes()].concat()
}

fn key(listed: &Listed) -> Vec<u8> {
    let names = [text(listed.class_name), text(&listed.name), text("")].concat();
    let key_size = 34 + names.len();
    let mut key = Vec::new();
    key.extend((listed.size as i32).to_be_bytes());
    key.extend(1004i16.to_be_bytes());
    key.extend(((listed.size.max(key_size) - key_size) as i32).to_be_bytes());
    key.extend([0; 4]); // date
    key.extend((key_size as i16).to_be_bytes());
    key.extend(1i16.to_be_bytes());
    key.extend((listed.seek as i64).to_be_bytes());
    key.extend((BEGIN as i64).to_be_bytes());
    key.extend(names);
    key
}

fn directory(keys_seek: usize, keys_size: usize) -> Vec<u8> {
    let mut bytes = 1005i16.to_be_bytes().to_vec();
    bytes.extend([0; 8]); // dates
    bytes.extend((keys_size as i32).to_be_bytes());
    bytes.extend([0; 4 + 16]); // size of the name, offset, offset of the parent
    bytes.extend((keys_seek as i64).to_be_bytes());
    bytes
}

impl Builder {
    fn new() -> Self {
        // `finish` fills in the header, the name record and the directory record.
        Self { bytes: vec![0; BEGIN + 200] }
    }

    fn add(&mut self, class_name: &'static str, name: &str, content: &[u8]) -> Listed {
        let mut listed = Listed { class_name, name: name.to_string(), seek: self.bytes.len(), size: 0 };
        listed.size = key(&listed).len() + content.len();
        self.bytes.extend(key(&listed));
        self.bytes.extend(content);
        listed
    }

    fn add_list(&mut self, keys: &[Listed]) -> Listed {
        let mut content = (keys.len() as i32).to_be_bytes().to_vec();
        keys.iter().for_each(|one| content.extend(key(one)));
        self.add("TFile", "list", &content)
    }

    fn add_directory(&mut self, name: &str, keys: &[Listed]) -> Listed {
        let list = self.add_list(keys);
        self.add("TDirectoryFile", name, &directory(list.seek, list.size))
    }

    fn finish(mut self, name: &str, keys: &[Listed]) -> Scratch {
        let list = self.add_list(keys);
        let mut header = b"root".to_vec();
        header.extend(1_062_206i32.to_be_bytes());
        header.extend((BEGIN as i32).to_be_bytes());
        header.extend((self.bytes.len() as i64).to_be_bytes());
        header.extend([0; 8 + 4 + 4]); // list of free segments
        header.extend(100i32.to_be_bytes());
        header.extend([8, 0, 0, 0, 0]); // units, compression
        header.extend([0; 8 + 4]); // no streamer infos
        self.bytes[..header.len()].copy_from_slice(&header);
        let top = directory(list.seek, list.size);
        self.bytes[BEGIN + 100..BEGIN + 100 + top.len()].copy_from_slice(&top);
        let path = std::env::temp_dir().join(format!("branchline-{name}-{}.root", std::process::id()));
        std::fs::write(&path, &self.bytes).unwrap();
        Scratch(path)
    }
}

struct Scratch(PathBuf);

impl Scratch {
    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Creates directories `Event0`, `Event1`, ... with two objects each. The first object of each directory has
/// `object_bytes` bytes.
fn events(name: &str, count: usize, object_bytes: usize) -> Scratch {
    let mut builder = Builder::new();
    let content = vec![7; object_bytes];
    let mut keys = Vec::new();
    for index in 0..count {
        let inside = [builder.add("TObjString", "TreeK", &content), builder.add("TObjString", "more", b"")];
        keys.push(builder.add_directory(&format!("Event{index}"), &inside));
    }
    builder.finish(name, &keys)
}

fn calls(file: &File) -> u64 {
    file.counters().snapshot().get(Counter::ReadCalls)
}

#[test]
fn one_of_many_directories_is_found_without_reading_the_others() {
    let scratch = events("one-of-many", 2_000, 10_000);
    let file = File::open(scratch.path(), &Access::default()).unwrap();
    let opened = calls(&file);
    assert!(opened <= 3, "{opened} calls to open");
    let found = file.find("Event17/TreeK").unwrap();
    assert_eq!((found.len(), found[0].class_name.as_str()), (1, "TObjString"));
    assert_eq!(file.keys_in("Event17").unwrap().len(), 2);
    assert_eq!(file.entries_below("Event17").unwrap()[1].path, "Event17/more");
    assert!(calls(&file) <= opened + 2, "{} calls", calls(&file));
    assert!(file.find("Event17/TreeL").unwrap().is_empty());
    assert!(file.find("Event2000").unwrap().is_empty());
    assert!(calls(&file) <= opened + 2, "what is known is not read again: {} calls", calls(&file));
}

#[test]
fn twenty_thousand_directories_are_read_in_two_rounds() {
    let scratch = events("twenty-thousand", 20_000, 600);
    let file = File::open(scratch.path(), &Access::default()).unwrap();
    let opened = calls(&file);
    let entries = file.entries_below("").unwrap();
    assert_eq!(entries.len(), 60_000);
    assert_eq!(entries[0].path, "Event0");
    assert_eq!(entries[59_999].path, "Event19999/more");
    // Nearby ranges are coalesced into reads of at most 8 MiB, and a request covers at most 4096 directories. The 20 MB
    // of the file are read twice: once for the directories and once for their key lists.
    assert!(calls(&file) - opened <= 2 * 8, "{} calls", calls(&file) - opened);
}

#[test]
fn a_list_of_a_hundred_thousand_keys_is_read() {
    let mut builder = Builder::new();
    let keys: Vec<Listed> = (0..100_000).map(|index| builder.add("TObjString", &format!("h{index}"), b"x")).collect();
    let scratch = builder.finish("long-list", &keys);
    let file = File::open(scratch.path(), &Access::default()).unwrap();
    assert_eq!(file.entries_below("").unwrap().len(), 100_000);
    assert_eq!(file.find("h99999").unwrap().len(), 1);
    assert!(calls(&file) < 10, "{} calls", calls(&file));
}

#[test]
fn directories_in_each_other_are_refused_and_others_still_found() {
    let mut builder = Builder::new();
    let good = builder.add("TObjString", "good", b"x");
    let first = builder.add_directory("a", &[]);
    let second = builder.add_directory("b", &[first.clone(), good]);
    // The first directory lists the second directory, which in turn contains the first.
    let list = builder.add_list(std::slice::from_ref(&second));
    let record = directory(list.seek, list.size);
    let at = first.seek + first.size - record.len();
    builder.bytes[at..at + record.len()].copy_from_slice(&record);
    let scratch = builder.finish("loop", &[first, second]);
    let file = File::open(scratch.path(), &Access::default()).unwrap();
    assert_eq!(file.find("a/b/a/b/good").unwrap().len(), 1);
    let error = file.entries_below("").unwrap_err();
    assert_eq!(error.kind, ReadErrorKind::BadFile);
    assert!(error.hint.as_ref().is_some_and(|hint| hint.contains("copy the file again")));
    assert!(error.message.contains("form a loop"), "{error}");
}
