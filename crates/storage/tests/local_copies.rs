//! Tests of the range cache and of staged files: bytes are correct whatever happens to the copies, and no copies are
//! left over.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::{symlink, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Duration;

use branchline_storage::{open, Access, ByteRange, Cached, Memory, RangeRead, ReadEffort, Staged, Store};

/// A directory for one test, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("branchline-copies-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn source(&self, bytes: &[u8]) -> Arc<dyn Store> {
        let path = self.0.join("source.bin");
        fs::write(&path, bytes).unwrap();
        open(path.to_str().unwrap(), &Access::default()).unwrap()
    }

    fn again(&self) -> Arc<dyn Store> {
        open(self.0.join("source.bin").to_str().unwrap(), &Access::default()).unwrap()
    }

    fn cached(&self, limit_bytes: u64) -> Cached {
        Cached::around(self.again(), &self.0.join("cache"), limit_bytes).unwrap()
    }

    /// Returns all files below the cache folder or the staging folder.
    fn files(&self, below: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.0.join(below)];
        while let Some(folder) = folders.pop() {
            for one in fs::read_dir(folder).into_iter().flatten() {
                let path = one.unwrap().path();
                if path.is_dir() { &mut folders } else { &mut found }.push(path);
            }
        }
        found
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A generator of reproducible pseudo-random numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn content(size: usize) -> Vec<u8> {
    let mut numbers = Numbers(7);
    (0..size).map(|_| numbers.below(256) as u8).collect()
}

fn read(store: &dyn Store, ranges: &[(u64, u64)], bytes: &[u8]) -> ReadEffort {
    let mut reads: Vec<RangeRead> =
        ranges.iter().map(|(offset, length)| RangeRead::new(ByteRange::new(*offset, *length))).collect();
    let effort = store.read_ranges(&mut reads).unwrap();
    for read in reads {
        let start = read.range.offset as usize;
        assert!(read.bytes() == &bytes[start..start + read.range.length as usize], "{:?}", read.range);
    }
    effort
}

const MEGABYTE: u64 = 1_000_000;

#[test]
fn what_was_read_once_is_not_read_again() {
    let (scratch, bytes) = (Scratch::new(), content(2_000_000));
    scratch.source(&bytes);
    let ranges = [(0, 300), (1_999_000, 1000), (5, 0), (500_000, 700_000)];
    let first = scratch.cached(100 * MEGABYTE);
    let effort = read(&first, &ranges, &bytes);
    assert_eq!((effort.read_bytes, effort.cached_bytes), (701_300, 0));
    // The same process reads the ranges while the segment is still being written.
    let effort = read(&scratch.cached(100 * MEGABYTE), &ranges, &bytes);
    assert_eq!((effort.calls_count, effort.read_bytes, effort.cached_bytes), (0, 0, 701_300));
    drop(first);
    let later = scratch.cached(100 * MEGABYTE);
    let effort = read(&later, &ranges, &bytes);
    assert_eq!((effort.calls_count, effort.read_bytes, effort.cached_bytes), (0, 0, 701_300));
    // One range lies inside a cached range, and one extends past a cached range.
    let effort = read(&later, &[(600_000, 10), (100, 400)], &bytes);
    assert_eq!((effort.read_bytes, effort.cached_bytes), (200, 210));
    assert_eq!(later.remarks(), Vec::<String>::new());
    assert_eq!(later.path(), scratch.again().path());
}

#[test]
fn ranges_of_any_kind_are_right_whatever_is_cached_of_them() {
    let (scratch, bytes) = (Scratch::new(), content(700_000));
    scratch.source(&bytes);
    let mut numbers = Numbers(11);
    let mut sum = ReadEffort::default();
    for _ in 0..60 {
        let store = scratch.cached(100 * MEGABYTE);
        for _ in 0..numbers.below(6) {
            let ranges: Vec<(u64, u64)> = (0..numbers.below(20))
                .map(|_| {
                    let offset = numbers.below(700_000);
                    (offset, numbers.below((700_001 - offset).min(150_000)))
                })
                .collect();
            sum = sum + read(&store, &ranges, &bytes);
        }
    }
    assert!(sum.cached_bytes > 10 * sum.read_bytes, "{sum:?}");
}

#[test]
fn a_file_that_has_changed_is_read_anew() {
    let (scratch, bytes) = (Scratch::new(), content(50_000));
    scratch.source(&bytes);
    read(&scratch.cached(MEGABYTE), &[(0, 50_000)], &bytes);
    let other: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
    scratch.source(&other);
    let effort = read(&scratch.cached(MEGABYTE), &[(0, 50_000)], &other);
    assert_eq!((effort.read_bytes, effort.cached_bytes), (50_000, 0));
}

#[test]
fn damaged_copies_are_never_served() {
    let (scratch, bytes) = (Scratch::new(), content(200_000));
    scratch.source(&bytes);
    let ranges = [(0, 100_000), (150_000, 50_000)];
    let mut numbers = Numbers(3);
    let mut noticed = 0;
    for round in 0..300 {
        read(&scratch.cached(10 * MEGABYTE), &ranges, &bytes);
        for path in scratch.files("cache") {
            let mut found = fs::read(&path).unwrap();
            let length = found.len().max(1) as u64;
            found.resize(length as usize, 0);
            match round % 5 {
                // Damages one of the last 140 bytes.
                0 => found[(length - 1 - numbers.below(length.min(140))) as usize] ^= 1 << numbers.below(8),
                1 => found[numbers.below(length) as usize] ^= 1 << numbers.below(8),
                2 => found.truncate(numbers.below(length) as usize),
                3 => found = content(numbers.below(5000) as usize),
                _ => found.extend(content(numbers.below(100) as usize + 1)),
            }
            fs::write(path, found).unwrap();
        }
        let effort = read(&scratch.cached(10 * MEGABYTE), &ranges, &bytes);
        noticed += u32::from(effort.read_bytes > 0);
        // The damaged segment was deleted, so its other records are fetched again too.
        read(&scratch.cached(10 * MEGABYTE), &ranges, &bytes);
        assert_eq!(read(&scratch.cached(10 * MEGABYTE), &ranges, &bytes).read_bytes, 0, "round {round}");
    }
    // Not all damage is noticed: not every byte was read, and a damaged last record may look unfinished.
    assert!(noticed > 150, "{noticed}");
}

#[test]
fn of_what_a_killed_process_wrote_only_whole_ranges_are_served() {
    let (scratch, bytes) = (Scratch::new(), content(300_000));
    scratch.source(&bytes);
    let ranges = [(0, 100_000), (100_000, 100_000), (200_000, 100_000)];
    for range in ranges {
        read(&scratch.cached(MEGABYTE * 10), &[range], &bytes);
    }
    let store = scratch.cached(MEGABYTE * 10);
    read(&store, &ranges, &bytes);
    drop(store);
    let mut numbers = Numbers(5);
    for round in 0..200 {
        for path in scratch.files("cache") {
            let length = fs::metadata(&path).unwrap().len().max(1);
            let cut = if round % 2 == 0 { length - numbers.below(100.min(length)) } else { numbers.below(length) };
            fs::OpenOptions::new().write(true).open(path).unwrap().set_len(cut).unwrap();
        }
        let effort = read(&scratch.cached(MEGABYTE * 10), &ranges, &bytes);
        assert_eq!(effort.read_bytes + effort.cached_bytes, 300_000);
        assert_eq!(read(&scratch.cached(MEGABYTE * 10), &ranges, &bytes).read_bytes, 0, "round {round}");
    }
}

#[test]
fn what_cannot_have_been_right_is_read_past_the_cache_and_replaced() {
    let (scratch, bytes) = (Scratch::new(), content(300_000));
    scratch.source(&bytes);
    let (store, later) = (scratch.cached(MEGABYTE), || scratch.cached(2 * MEGABYTE));
    read(&store, &[(0, 100_000), (200_000, 100)], &bytes);
    let mut reads = [RangeRead::new(ByteRange::new(50_000, 100))];
    let effort = store.read_again(&mut reads).unwrap();
    assert_eq!((reads[0].bytes(), effort.read_bytes), (&bytes[50_000..50_100], 100));
    assert_eq!(read(&store, &[(50_000, 100)], &bytes).read_bytes, 0);
    assert_eq!(read(&later(), &[(50_000, 100)], &bytes).read_bytes, 0);
    assert_eq!(read(&later(), &[(0, 100)], &bytes).read_bytes, 100);
}

#[test]
fn what_one_process_fetches_another_has_at_once() {
    let (scratch, bytes) = (Scratch::new(), content(300_000));
    scratch.source(&bytes);
    // Caches with different limits share only the folder, so they behave like the caches of two processes.
    let (one, other) = (scratch.cached(MEGABYTE), scratch.cached(2 * MEGABYTE));
    for start in 0..3 {
        assert_eq!(read(&one, &[(start * 100_000, 100_000)], &bytes).cached_bytes, 0);
        assert_eq!(read(&other, &[(start * 100_000 + 5, 99_000)], &bytes).cached_bytes, 99_000);
    }
}

#[test]
fn a_cache_stays_within_its_limit_and_keeps_what_was_used_last() {
    let (scratch, bytes) = (Scratch::new(), content(8_000_000));
    scratch.source(&bytes);
    let limit = 2_000_000;
    for start in 0..80 {
        read(&scratch.cached(limit), &[(start * 100_000, 100_000)], &bytes);
        // The first range is used repeatedly, so it must stay in the cache.
        let first = read(&scratch.cached(limit), &[(0, 100_000)], &bytes);
        assert_eq!(first.read_bytes, 0, "after {start}");
        for path in scratch.files("cache") {
            // Makes the segment older, because timestamps determine the order of eviction.
            let file = fs::File::open(&path).unwrap();
            let used = file.metadata().unwrap().modified().unwrap();
            file.set_modified(used - Duration::from_secs(100)).unwrap();
        }
        let sizes = scratch.files("cache").iter().map(|path| fs::metadata(path).unwrap().len()).sum::<u64>();
        assert!(sizes <= limit, "{sizes} after {start}");
    }
    assert!(scratch.files("cache").len() > 10);
    let effort = read(&scratch.cached(limit), &[(7_900_000, 100_000), (200_000, 100_000)], &bytes);
    assert_eq!((effort.read_bytes, effort.cached_bytes), (100_000, 100_000));
}

#[test]
fn threads_and_stores_share_a_cache() {
    let (scratch, bytes) = (Scratch::new(), content(3_000_000));
    scratch.source(&bytes);
    std::thread::scope(|scope| {
        for seed in 0..6 {
            let (scratch, bytes) = (&scratch, &bytes);
            scope.spawn(move || {
                let mut numbers = Numbers(seed);
                for _ in 0..20 {
                    let store = scratch.cached(2 * MEGABYTE);
                    for _ in 0..5 {
                        let offset = numbers.below(2_900_000);
                        read(&store, &[(offset, 100_000), (numbers.below(2_000_000), 7)], bytes);
                    }
                }
            });
        }
    });
}

#[test]
fn where_nothing_can_be_cached_it_is_read_all_the_same_and_said() {
    let (scratch, bytes) = (Scratch::new(), content(5000));
    scratch.source(&bytes);
    fs::write(scratch.0.join("cache"), "no folder").unwrap();
    let store = scratch.cached(MEGABYTE);
    assert_eq!(read(&store, &[(0, 5000)], &bytes).read_bytes, 5000);
    assert!(store.remarks()[0].starts_with("not cached: "), "{:?}", store.remarks());

    let memory = Arc::new(Memory::new("f.bin", bytes.clone()));
    let store = Cached::around(memory, &scratch.0.join("other"), MEGABYTE).unwrap();
    assert_eq!(read(&store, &[(0, 5000)], &bytes).read_bytes, 5000);
    assert!(store.remarks()[0].contains("sends nothing that identifies the version"), "{:?}", store.remarks());
}

#[test]
fn a_buffer_around_passes_on_what_is_said_and_what_is_to_be_read_past_it() {
    let scratch = Scratch::new();
    let path = scratch.source(b"0123456789").path().to_owned();
    fs::write(scratch.0.join("cache"), "no folder").unwrap();
    let throttle = Some("latency=0ms".to_owned());
    let cache_dir = Some(scratch.0.join("cache"));
    let access = Access { throttle, cache_dir, read_ahead_bytes: Some(4096), ..Access::default() };
    let store = open(&path, &access).unwrap();
    assert!(store.remarks().iter().any(|remark| remark.starts_with("not cached: ")), "{:?}", store.remarks());
    let mut reads = [RangeRead::new(ByteRange::new(2, 3))];
    store.read_ranges(&mut reads).unwrap();
    assert_eq!((store.read_again(&mut reads).unwrap().read_bytes, reads[0].bytes()), (3, &b"234"[..]));
}

#[test]
fn a_cache_that_was_emptied_meanwhile_is_filled_again() {
    let (scratch, bytes) = (Scratch::new(), content(100_000));
    scratch.source(&bytes);
    let store = scratch.cached(10 * MEGABYTE);
    read(&store, &[(0, 100_000)], &bytes);
    drop(store);
    let store = scratch.cached(10 * MEGABYTE);
    assert_eq!(read(&store, &[(0, 100_000)], &bytes).read_bytes, 0);
    fs::remove_dir_all(scratch.0.join("cache")).unwrap();
    assert_eq!(read(&store, &[(0, 100_000)], &bytes).read_bytes, 100_000);
    assert_eq!(read(&store, &[(0, 100_000)], &bytes).read_bytes, 0);
    assert_eq!(store.remarks(), Vec::<String>::new());
}

fn staged(scratch: &Scratch) -> Staged {
    Staged::copy(scratch.again(), &scratch.0.join("stage"), usize::MAX).unwrap()
}

fn whole_files(scratch: &Scratch) -> usize {
    scratch.files("stage").iter().filter(|path| path.extension().is_some_and(|what| what == "whole")).count()
}

#[test]
fn a_staged_file_is_copied_once_and_removed_after_its_last_reader() {
    let (scratch, bytes) = (Scratch::new(), content(40_000_000));
    scratch.source(&bytes);
    let first = staged(&scratch);
    let effort = read(&first, &[(39_999_990, 10), (17_000_000, 1_000_000)], &bytes);
    assert_eq!((effort.read_bytes, effort.cached_bytes), (40_000_000, 1_000_010));
    let second = staged(&scratch);
    drop(first);
    let effort = read(&second, &[(0, 40_000_000)], &bytes);
    assert_eq!((effort.read_bytes, effort.cached_bytes), (0, 40_000_000));
    assert_eq!(whole_files(&scratch), 1);
    drop(second);
    assert_eq!(scratch.files("stage"), Vec::<PathBuf>::new());
}

#[test]
fn readers_at_the_same_time_share_one_copy() {
    let (scratch, bytes) = (Scratch::new(), content(20_000_000));
    scratch.source(&bytes);
    let all = std::sync::Barrier::new(8);
    let moved: u64 = std::thread::scope(|scope| {
        let one = || {
            let store = staged(&scratch);
            all.wait();
            read(&store, &[(3, 1_000_000)], &bytes).read_bytes
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(one)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(moved, 20_000_000);
    assert_eq!(scratch.files("stage"), Vec::<PathBuf>::new());
}

#[test]
fn opening_and_closing_at_the_same_time_leaves_nothing_and_reads_right() {
    let (scratch, bytes) = (Scratch::new(), content(300_000));
    scratch.source(&bytes);
    std::thread::scope(|scope| {
        for seed in 0..6 {
            let (scratch, bytes) = (&scratch, &bytes);
            scope.spawn(move || {
                let mut numbers = Numbers(seed);
                for _ in 0..40 {
                    let store = staged(scratch);
                    assert_eq!(store.remarks(), Vec::<String>::new());
                    read(&store, &[(numbers.below(200_000), 100_000)], bytes);
                }
            });
        }
    });
    assert_eq!(scratch.files("stage"), Vec::<PathBuf>::new());
}

#[test]
fn copies_that_killed_jobs_left_behind_are_removed_and_not_used() {
    let (scratch, bytes) = (Scratch::new(), content(100_000));
    scratch.source(&bytes);
    let store = staged(&scratch);
    let left: Vec<PathBuf> = scratch.files("stage");
    let kept: Vec<(PathBuf, Vec<u8>)> = left.iter().map(|path| (path.clone(), vec![0; 100_000])).collect();
    drop(store);
    // Simulates leftovers of a killed job: files with the same names and sizes, but wrong bytes.
    for (path, wrong) in &kept {
        fs::write(path, wrong).unwrap();
    }
    let other = kept[0].0.with_file_name("other");
    for what in ["lock", "part", "whole"] {
        fs::write(other.with_extension(what), "left").unwrap();
    }
    let store = staged(&scratch);
    assert_eq!(read(&store, &[(0, 100_000)], &bytes).read_bytes, 100_000);
    assert!(!other.with_extension("whole").exists() && !other.with_extension("part").exists());
    drop(store);
    assert_eq!(scratch.files("stage"), Vec::<PathBuf>::new());
}

#[test]
fn a_file_that_does_not_fit_is_read_from_its_place_and_that_is_said() {
    let scratch = Scratch::new();
    scratch.source(b"x");
    fs::OpenOptions::new().write(true).open(scratch.0.join("source.bin")).unwrap().set_len(1 << 43).unwrap();
    let store = staged(&scratch);
    let mut reads = [RangeRead::new(ByteRange::new(0, 2))];
    assert_eq!(store.read_ranges(&mut reads).unwrap().read_bytes, 2);
    assert_eq!(reads[0].bytes(), b"x\0");
    assert!(store.remarks()[0].contains("the file has 8796093022208 bytes"), "{:?}", store.remarks());
    drop(store);
    assert_eq!(scratch.files("stage"), Vec::<PathBuf>::new());
}

#[test]
fn users_who_share_a_folder_have_copies_of_their_own() {
    let (scratch, bytes) = (Scratch::new(), content(5000));
    scratch.source(&bytes);
    drop(staged(&scratch));
    let mut folders = fs::read_dir(scratch.0.join("stage")).unwrap();
    let own = folders.next().unwrap().unwrap().path();
    assert!(own.display().to_string().ends_with(&format!("-{}", fs::metadata(&own).unwrap().uid())));
    // Simulates another user who has placed a link at this path that points to a folder of their own.
    fs::remove_dir(&own).unwrap();
    fs::create_dir(scratch.0.join("theirs")).unwrap();
    symlink(scratch.0.join("theirs"), &own).unwrap();
    let store = staged(&scratch);
    assert_eq!(read(&store, &[(0, 5000)], &bytes).read_bytes, 5000);
    assert!(store.remarks()[0].ends_with("is not a folder of your own"), "{:?}", store.remarks());
    assert_eq!(scratch.files("theirs"), Vec::<PathBuf>::new());
}

#[test]
fn a_staged_file_that_has_changed_is_copied_anew() {
    let (scratch, bytes) = (Scratch::new(), content(5000));
    scratch.source(&bytes);
    let before = staged(&scratch);
    let other: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
    fs::remove_file(scratch.0.join("source.bin")).unwrap();
    scratch.source(&other);
    read(&staged(&scratch), &[(0, 5000)], &other);
    read(&before, &[(0, 5000)], &bytes);
}

#[test]
fn what_lies_on_a_local_disk_is_neither_cached_nor_staged() {
    let (scratch, bytes) = (Scratch::new(), content(5000));
    let path = scratch.source(&bytes).path().to_owned();
    let folder = Some(scratch.0.join("copies"));
    for name in ["stage", "planned"] {
        let mode = branchline_storage::AccessMode::named(name).unwrap();
        let access = Access { mode, cache_dir: folder.clone(), stage_dir: folder.clone(), ..Access::default() };
        assert_eq!(read(&*open(&path, &access).unwrap(), &[(0, 5000)], &bytes).read_bytes, 5000);
    }
    assert!(!Path::new(&scratch.0.join("copies")).exists());
}
