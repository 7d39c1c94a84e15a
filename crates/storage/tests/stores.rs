//! Tests that all stores behave alike and report clear errors.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use branchline_storage::{
    open, Access, ByteRange, Counted, LocalFile, LocalMode, Memory, RangeRead, ReadEffort, StorageError,
    StorageErrorKind, Store,
};
use branchline_trace::{Counter, Counters};

/// A directory for one test, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("branchline-stores-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn hundred_kilobytes() -> Vec<u8> {
    (0..100_000_u32).map(|index| (index * 7 % 251) as u8).collect()
}

fn read_range(store: &dyn Store, range: ByteRange) -> Result<Vec<u8>, StorageError> {
    let mut read = [RangeRead::new(range)];
    store.read_ranges(&mut read)?;
    Ok(read[0].bytes().to_vec())
}

/// Returns stores with the same bytes: a local file, a store in memory, and a store in memory with counters.
fn stores(scratch: &Scratch, bytes: &[u8]) -> Vec<Arc<dyn Store>> {
    let path = scratch.write("f.bin", bytes);
    let memory = Arc::new(Memory::new("f.bin", bytes));
    let counted = Counted::new(memory.clone(), Arc::new(Counters::new()));
    vec![open(&path, &Access::default()).unwrap(), memory, Arc::new(counted)]
}

#[test]
fn every_range_gets_exactly_its_bytes() {
    let bytes = hundred_kilobytes();
    let wanted = [(0, 10), (99_990, 10), (5, 60_000), (7, 0), (100_000, 0), (0, 100_000), (5, 60_000)];
    for store in stores(&Scratch::new(), &bytes) {
        let ranges = wanted.map(|(offset, length)| ByteRange::new(offset, length));
        let mut reads = ranges.map(RangeRead::new);
        let effort = store.read_ranges(&mut reads).unwrap();
        for read in &reads {
            let start = read.range.offset as usize;
            assert!(read.bytes() == &bytes[start..start + read.range.length as usize], "{:?}", read.range);
        }
        assert_eq!(effort.read_bytes, 220_020, "{}", store.name());
        assert_eq!(store.size_bytes().unwrap(), 100_000);
        assert_eq!(read_range(&*store, ranges[2]).unwrap(), reads[2].bytes());
    }
}

#[test]
fn used_buffers_of_any_size_are_overwritten() {
    let bytes = hundred_kilobytes();
    for store in stores(&Scratch::new(), &bytes) {
        let mut buffer = Vec::new();
        for length in [10, 100, 50, 50, 0, 60, 99_000, 99_000, 1] {
            let mut read = [RangeRead::reusing(ByteRange::new(17, length as u64), buffer)];
            store.read_ranges(&mut read).unwrap();
            let [read] = read;
            assert!(read.bytes() == &bytes[17..17 + length], "{} with {length} bytes", store.name());
            buffer = read.into_buffer().0;
        }
    }
}

#[test]
fn a_used_buffer_keeps_its_memory() {
    let scratch = Scratch::new();
    let bytes = hundred_kilobytes();
    for store in stores(&scratch, &bytes) {
        let buffer = vec![1; 50_000];
        let address = buffer.as_ptr();
        let mut read = [RangeRead::reusing(ByteRange::new(0, 40_000), buffer)];
        store.read_ranges(&mut read).unwrap();
        let [read] = read;
        assert_eq!(read.into_buffer().0.as_ptr(), address, "{}", store.name());
    }
}

#[test]
fn a_range_behind_the_end_is_truncated_and_sizes_no_buffer() {
    let scratch = Scratch::new();
    for store in stores(&scratch, &hundred_kilobytes()) {
        for (offset, length, got) in
            [(99_950, 100, 50), (200_000, 1, 0), (0, u64::MAX, 100_000), (u64::MAX, u64::MAX, 0), (1 << 40, 1 << 40, 0)]
        {
            let mut reads = [RangeRead::new(ByteRange::new(offset, length))];
            let error = store.read_ranges(&mut reads).unwrap_err();
            assert_eq!(error.kind, StorageErrorKind::Truncated);
            assert_eq!(error.offset, Some(offset));
            assert_eq!(error.path, store.path());
            let [read] = reads;
            assert_eq!(read.into_buffer().0.capacity(), 0);
            let expected = format!(
                "{}: wanted {length} bytes at offset {offset} and got {got}, because the file ends at 100000 bytes. \
                 It may have been cut short",
                store.path()
            );
            assert!(error.message.starts_with(&expected), "{error}");
            assert!(!error.retry_may_help());
        }
    }
}

#[test]
fn a_file_that_shrinks_after_opening_is_truncated() {
    let scratch = Scratch::new();
    let path = scratch.write("f.bin", &hundred_kilobytes());
    let store = open(&path, &Access::default()).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(1000).unwrap();
    let error = read_range(&*store, ByteRange::new(900, 200)).unwrap_err();
    assert_eq!(error.kind, StorageErrorKind::Truncated);
    assert!(error.message.contains("got 100, because the file ends at 1000 bytes"), "{error}");
}

#[test]
fn the_error_of_a_file_that_was_cut_names_the_range_and_the_size() {
    let scratch = Scratch::new();
    for (name, mode) in LocalMode::NAMES {
        let path = scratch.write("f.bin", &hundred_kilobytes());
        let store = LocalFile::open(&path, path.as_ref(), mode).unwrap();
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(50_000).unwrap();
        let mut reads = [(0, 10), (60_000, 20), (70_000, 30)]
            .map(|(offset, length)| RangeRead::new(ByteRange::new(offset, length)));
        let error = store.read_ranges(&mut reads[..2]).unwrap_err();
        assert_eq!((error.kind, error.offset), (StorageErrorKind::Truncated, Some(60_000)), "{name}: {error}");
        assert!(error.message.contains("wanted 20 bytes") && error.message.contains("ends at 50000 bytes"), "{error}");
    }
}

#[test]
fn a_missing_file_is_not_found() {
    let scratch = Scratch::new();
    let file = scratch.write("f.bin", b"x");
    for path in [scratch.path("absent.root"), format!("{file}/below-a-file"), String::new()] {
        let error = open(&path, &Access::default()).err().unwrap();
        assert_eq!(error.kind, StorageErrorKind::NotFound, "{error}");
        assert_eq!(error.to_string(), format!("{path}: cannot be opened: there is no such file."));
    }
}

#[test]
fn directories_pipes_and_devices_are_not_files() {
    let scratch = Scratch::new();
    let pipe = scratch.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for (path, what) in [(scratch.path(""), "a directory"), (pipe, "a pipe"), ("/dev/null".into(), "a device")] {
        let error = open(&path, &Access::default()).err().unwrap();
        assert_eq!(error.kind, StorageErrorKind::NotAFile, "{error}");
        assert!(error.message.contains(what), "{error}");
    }
}

#[test]
fn a_path_that_no_file_can_have_is_not_worth_a_retry() {
    for path in ["a\0b".to_owned(), "x".repeat(10_000)] {
        let error = open(&path, &Access::default()).err().unwrap();
        assert_eq!(error.kind, StorageErrorKind::Io);
        assert!(!error.retry_may_help(), "{error}");
    }
}

#[test]
fn a_file_url_reads_the_file() {
    let scratch = Scratch::new();
    let path = scratch.write("with space.bin", b"hello");
    let url = format!("file://{}", path.replace(' ', "%20"));
    let store = open(&url, &Access::default()).unwrap();
    assert_eq!(store.path(), url);
    assert_eq!(read_range(&*store, ByteRange::new(1, 3)).unwrap(), b"ell");
}

#[test]
fn a_file_url_means_the_path_that_is_written_if_there_is_such_a_file() {
    let scratch = Scratch::new();
    let path = scratch.write("b%2Ebin", b"as written");
    scratch.write("b.bin", b"decoded");
    let store = open(&format!("file://{path}"), &Access::default()).unwrap();
    assert_eq!(read_range(&*store, ByteRange::new(0, 10)).unwrap(), b"as written");
    let store = open(&format!("file://{}", path.replace("%2E", "%2e")), &Access::default()).unwrap();
    assert_eq!(read_range(&*store, ByteRange::new(0, 7)).unwrap(), b"decoded");
}

#[test]
fn a_local_file_names_its_host() {
    let scratch = Scratch::new();
    let store = open(&scratch.write("f.bin", b""), &Access::default()).unwrap();
    let host = store.name().strip_prefix("local:").unwrap();
    assert!(!host.is_empty());
}

#[test]
fn a_local_file_needs_one_call_for_each_range_with_bytes() {
    let scratch = Scratch::new();
    let path = scratch.write("f.bin", &hundred_kilobytes());
    let file = LocalFile::open(&path, path.as_ref(), LocalMode::default()).unwrap();
    let mut reads =
        [(0, 100_000), (3, 0), (50, 10)].map(|(offset, length)| RangeRead::new(ByteRange::new(offset, length)));
    let effort = file.read_ranges(&mut reads).unwrap();
    assert_eq!(effort, ReadEffort { calls_count: 2, read_bytes: 100_010, cached_bytes: 0 });
}

#[test]
fn threads_share_one_local_file() {
    let scratch = Scratch::new();
    let bytes = hundred_kilobytes();
    let store = open(&scratch.write("f.bin", &bytes), &Access::default()).unwrap();
    std::thread::scope(|scope| {
        for start in 0..4_usize {
            let (store, bytes) = (&store, &bytes);
            scope.spawn(move || {
                for offset in (start * 1000..90_000).step_by(997) {
                    let read = read_range(&**store, ByteRange::new(offset as u64, 5000)).unwrap();
                    assert!(read == bytes[offset..offset + 5000]);
                }
            });
        }
    });
}

#[test]
fn what_is_read_through_a_counted_store_is_counted() {
    let counters = Arc::new(Counters::new());
    let store = Counted::new(Arc::new(Memory::new("f.bin", hundred_kilobytes())), counters.clone());
    assert_eq!((store.name(), store.path()), ("memory", "f.bin"));
    let mut reads = [RangeRead::new(ByteRange::new(0, 70)), RangeRead::new(ByteRange::new(50, 30))];
    store.read_ranges(&mut reads).unwrap();
    read_range(&store, ByteRange::new(99_999, 2)).unwrap_err();
    let snapshot = counters.snapshot();
    assert_eq!(snapshot.get(Counter::BytesAsked), 102);
    assert_eq!(snapshot.get(Counter::BytesRead), 100);
    assert_eq!(snapshot.get(Counter::ReadCalls), 2);
    assert!(snapshot.get(Counter::FetchNs) > 0);
}
