//! Tests that emulated throttles and faults follow their specification.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use branchline_storage::{ByteRange, Faulty, Memory, RangeRead, StorageError, StorageErrorKind, Store, Throttled};
use branchline_trace::journal;

const BYTES: usize = 100_000;

fn memory(path: &str) -> Result<Arc<dyn Store>, StorageError> {
    let bytes: Vec<u8> = (0..BYTES).map(|index| (index * 7 % 251) as u8).collect();
    Ok(Arc::new(Memory::new(path, bytes)))
}

fn read(store: &dyn Store) -> Result<Vec<u8>, StorageError> {
    let mut reads = [RangeRead::new(ByteRange::new(0, 90_000)), RangeRead::new(ByteRange::new(90_000, 10_000))];
    store.read_ranges(&mut reads)?;
    Ok([reads[0].bytes(), reads[1].bytes()].concat())
}

#[test]
fn a_throttled_store_gives_the_same_bytes_and_not_too_early() {
    let words = "latency=20ms,bandwidth=10MB/s";
    let started = Instant::now();
    let stores: Vec<_> = ["a", "b"].iter().map(|path| Throttled::open(words, path, || memory(path)).unwrap()).collect();
    assert!(started.elapsed() >= Duration::from_millis(40));
    let started = Instant::now();
    std::thread::scope(|scope| {
        for store in &stores {
            scope.spawn(|| assert!(read(store).unwrap() == read(&*memory("a").unwrap()).unwrap()));
        }
    });
    // The two reads run in parallel: they share one round trip, but their bytes pass the link one after the other.
    assert!(started.elapsed() >= Duration::from_millis(20 + 2 * 10));
}

#[test]
fn every_kind_of_fault_is_reported_as_what_it_is() {
    use StorageErrorKind::{NotFound, Protocol, Timeout, Unreachable};
    for (kind, expected) in
        [("stall,for=5ms", Timeout), ("reset", Unreachable), ("short", Protocol), ("missing", NotFound)]
    {
        let words = format!("{kind},after=2,seed=5");
        let store = Faulty::around(&words, "f.root", || memory("f.root")).unwrap();
        read(&store).unwrap();
        let error = read(&store).unwrap_err();
        assert_eq!(error.kind, expected, "{error}");
        assert_eq!(error.retry_may_help(), expected != NotFound);
        assert!(error.message.starts_with("f.root: reading 90000 bytes at offset 0 failed: "), "{error}");
        let error = Faulty::around(&words, "f.root", || memory("f.root")).err().unwrap();
        assert_eq!(error.kind, expected, "{error}");
    }
}

#[test]
fn one_byte_is_changed_and_no_error_returned() {
    let right = read(&*memory("f.root").unwrap()).unwrap();
    for seed in 0..20 {
        let words = format!("wrong,every=3,seed={seed}");
        let store = Faulty::around(&words, "f.root", || memory("f.root")).unwrap();
        let wrong: Vec<usize> = (0..8)
            .map(|_| read(&store).unwrap().iter().zip(&right).filter(|(one, other)| one != other).count())
            .collect();
        assert!(wrong.iter().all(|count| *count <= 1) && (2..=3).contains(&wrong.iter().sum::<usize>()), "{wrong:?}");
    }
}

#[test]
fn a_trace_of_a_fault_names_the_file_without_its_token() {
    let folder = std::env::temp_dir().join(format!("branchline-fault-trace-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    journal::begin(&folder).unwrap();
    let path = "root://host//f.root?authz=Bearer%20hidden";
    assert!(Faulty::around("reset,seed=7", path, || memory(path)).is_err());
    journal::end().unwrap();
    let written: Vec<u8> =
        std::fs::read_dir(&folder).unwrap().flat_map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect();
    std::fs::remove_dir_all(&folder).unwrap();
    let written = String::from_utf8_lossy(&written);
    assert!(written.contains("//f.root?authz=***") && !written.contains("hidden"), "{written}");
}

#[test]
fn words_that_mean_nothing_are_an_error_about_the_option() {
    let error = Faulty::around("stal", "f.root", || memory("f.root")).err().unwrap();
    assert_eq!(error.kind, StorageErrorKind::Option);
    assert!(error.message.contains("\"stal\""), "{error}");
    let error = Throttled::open("latency=long", "f.root", || memory("f.root")).err().unwrap();
    assert_eq!((error.kind, error.retry_may_help()), (StorageErrorKind::Option, false));
}
