//! Tests which bytes are read when replicas fail in different ways.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use super::*;
use crate::Memory;

/// How a replica responds to reads.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mood {
    Well,
    Resets,
    Stalls,
    Gone,
}

/// A replica of a test: its bytes, its behaviour, and how often it was opened and read.
struct Site {
    bytes: Vec<u8>,
    mood: Mutex<Mood>,
    opened_count: AtomicU64,
    reads_count: AtomicU64,
}

type Sites = Arc<HashMap<&'static str, Site>>;

struct AtSite(Memory, Sites, &'static str);

impl AtSite {
    fn open(sites: &Sites, location: &str) -> Result<Arc<dyn Store>> {
        let (name, site) = sites.get_key_value(location).unwrap();
        site.opened_count.fetch_add(1, Ordering::Relaxed);
        behave(site, location)?;
        Ok(Arc::new(Self(Memory::new(location, site.bytes.clone()), Arc::clone(sites), name)))
    }
}

fn behave(site: &Site, location: &str) -> Result<()> {
    let mood = *lock(&site.mood);
    match mood {
        Mood::Well => Ok(()),
        Mood::Resets => Err(Fault::new(StorageErrorKind::Unreachable, "it closed the connection").at(location, None)),
        Mood::Gone => Err(Fault::new(StorageErrorKind::NotFound, "there is no such file").at(location, None)),
        Mood::Stalls => loop {
            std::thread::park();
        },
    }
}

impl Store for AtSite {
    fn name(&self) -> &str {
        self.2
    }

    fn path(&self) -> &str {
        self.0.path()
    }

    fn size_bytes(&self) -> Result<u64> {
        self.0.size_bytes()
    }

    fn identity(&self) -> Option<String> {
        None
    }

    fn gap_bytes(&self) -> u64 {
        0
    }

    fn read_ranges(&self, reads: &mut [RangeRead]) -> Result<ReadEffort> {
        let site = &self.1[self.2];
        site.reads_count.fetch_add(1, Ordering::Relaxed);
        behave(site, self.2)?;
        self.0.read_ranges(reads)
    }
}

fn bytes() -> Vec<u8> {
    (0..200_000_u32).map(|index| (index * 7 % 251) as u8).collect()
}

fn sites(of: &[(&'static str, Mood, Vec<u8>)]) -> Sites {
    let site = |(location, mood, bytes): &(&'static str, Mood, Vec<u8>)| {
        let counts = (AtomicU64::new(0), AtomicU64::new(0));
        (
            *location,
            Site { bytes: bytes.clone(), mood: Mutex::new(*mood), opened_count: counts.0, reads_count: counts.1 },
        )
    };
    Arc::new(of.iter().map(site).collect())
}

fn open(sites: &Sites, locations: &[&str]) -> Result<Replicated> {
    let settings = Settings { silence: Duration::from_millis(50), tries_max: 2, ..Settings::default() };
    let sites = Arc::clone(sites);
    Replicated::open(locations, &settings, Arc::new(move |location: &str, _: &Settings| AtSite::open(&sites, location)))
}

fn read(store: &Replicated, offset: u64) -> Result<Vec<u8>> {
    let mut reads = [RangeRead::new(ByteRange::new(offset, 20_000))];
    store.read_ranges(&mut reads)?;
    Ok(reads[0].bytes().to_vec())
}

#[test]
fn a_file_is_read_on_from_another_replica_where_it_was() {
    for (number, mood) in [Mood::Resets, Mood::Stalls, Mood::Gone].into_iter().enumerate() {
        let first: &str = ["root://a0//f", "root://a1//f", "root://a2//f"][number];
        let all = sites(&[(first, Mood::Well, bytes()), ("root://b//f", Mood::Well, bytes())]);
        let store = open(&all, &[first, "root://b//f"]).unwrap();
        assert_eq!(read(&store, 0).unwrap(), bytes()[..20_000]);
        *lock(&all[first].mood) = mood;
        for offset in [20_000, 40_000, 60_000] {
            assert_eq!(read(&store, offset).unwrap(), bytes()[offset as usize..][..20_000], "{mood:?}");
        }
        assert_eq!(all[first].reads_count.load(Ordering::Relaxed), 2, "it is not tried again");
        assert_eq!(all["root://b//f"].opened_count.load(Ordering::Relaxed), 1);
        let found = crate::servers::failure_counts::troubles_with(&element_of(first));
        assert_eq!((found.replicas_left_count, found.retries_count), (1, 0));
        assert_eq!(found.timeouts_count, u64::from(mood == Mood::Stalls));
        assert_eq!(found.resets_count, u64::from(mood == Mood::Resets));
    }
}

#[test]
fn a_replica_with_other_bytes_or_another_size_is_refused_and_named() {
    let mut other = bytes();
    other[5] ^= 1;
    for (wrong, how) in
        [(other, "its bytes at offset 0 differ"), (bytes()[1..].to_vec(), "199999 bytes instead of 200000")]
    {
        let all = sites(&[("root://c//f", Mood::Well, bytes()), ("root://d//f", Mood::Well, wrong)]);
        let store = open(&all, &["root://c//f", "root://d//f"]).unwrap();
        read(&store, 0).unwrap();
        *lock(&all["root://c//f"].mood) = Mood::Resets;
        let error = read(&store, 20_000).unwrap_err();
        assert!(error.message.contains("it closed the connection") && error.message.contains(how), "{error}");
        assert!(error.message.contains("root://d//f") && error.retry_may_help(), "{error}");
        *lock(&all["root://c//f"].mood) = Mood::Well;
        assert_eq!(read(&store, 20_000).unwrap(), bytes()[20_000..40_000]);
    }
}

#[test]
fn the_first_replica_that_answers_is_opened_and_one_that_failed_lately_comes_last() {
    let all = sites(&[("root://e//f", Mood::Resets, bytes()), ("root://g//f", Mood::Well, bytes())]);
    for _ in 0..3 {
        assert_eq!(read(&open(&all, &["root://e//f", "root://g//f"]).unwrap(), 7).unwrap(), bytes()[7..20_007]);
    }
    assert_eq!(all["root://e//f"].opened_count.load(Ordering::Relaxed), 1);
}

#[test]
fn what_no_replica_gives_is_an_error_that_names_all() {
    let all = sites(&[("root://h//f", Mood::Gone, bytes()), ("root://i//f?authz=secret", Mood::Resets, bytes())]);
    let error = open(&all, &["root://h//f", "root://i//f?authz=secret"]).err().unwrap();
    assert_eq!((error.kind, error.retry_may_help()), (StorageErrorKind::Unreachable, true));
    assert!(error.message.starts_with("root://h//f: cannot be opened: none of its 2 replicas can be read (2 tries): "));
    assert!(error.message.contains("there is no such file") && error.message.contains("closed the connection"));
    assert!(!error.message.contains("secret"), "{error}");
}

#[test]
fn the_only_replica_is_tried_again_and_a_final_error_returned_as_it_is() {
    let all = sites(&[("/data/f", Mood::Well, bytes())]);
    let store = open(&all, &["/data/f"]).unwrap();
    *lock(&all["/data/f"].mood) = Mood::Resets;
    let error = read(&store, 0).unwrap_err();
    assert_eq!(error.message, "/data/f: cannot be opened: it closed the connection (2 tries).");
    *lock(&all["/data/f"].mood) = Mood::Gone;
    assert!(!read(&store, 0).unwrap_err().message.contains("tries"));
    *lock(&all["/data/f"].mood) = Mood::Well;
    assert_eq!(read(&store, 0).unwrap(), bytes()[..20_000]);
}

#[test]
fn bytes_that_cannot_be_right_are_read_again_from_another_replica() {
    let all = sites(&[("root://j//f", Mood::Well, bytes()), ("root://k//f", Mood::Well, bytes())]);
    let store = open(&all, &["root://j//f", "root://k//f"]).unwrap();
    let mut reads = [RangeRead::new(ByteRange::new(0, 10))];
    store.read_again(&mut reads).unwrap();
    assert_eq!(reads[0].bytes(), &bytes()[..10]);
    assert_eq!(all["root://k//f"].reads_count.load(Ordering::Relaxed), 1);
    assert_eq!(all["root://j//f"].reads_count.load(Ordering::Relaxed), 0);
}

#[test]
fn the_nearest_replica_is_read_and_every_failure_is_counted() {
    let names = ["root://far//f", "root://near:1//f", "root://middle//f"];
    let all = sites(&names.map(|name| (name, Mood::Well, bytes())));
    let rank = |beginning: &str, rank| crate::ReplicaRank { beginning: beginning.to_owned(), rank };
    crate::prefer_replicas(vec![rank("root://near:1", 1), rank("root://middle/", 2)]);
    let store = open(&all, &names).unwrap();
    assert_eq!((store.path(), store.name()), (names[0], names[1]), "its path is the first that is listed");
    read(&store, 0).unwrap();
    *lock(&all[names[1]].mood) = Mood::Resets;
    read(&store, 20_000).unwrap();
    let found = store.replicas();
    let counted: Vec<_> = found.iter().map(|one| (one.path.as_str(), one.read_bytes, one.failures_count)).collect();
    assert_eq!(counted, [(names[1], 20_000, 1), (names[2], 20_000, 0), (names[0], 0, 0)]);
    assert!(found[0].error.contains("it closed the connection"), "{found:?}");
    assert_eq!(nearest_in("root://far//f | root://middle//f"), "root://middle//f");
    assert!(open(&all, &names[..1]).unwrap().replicas().is_empty());
}

#[test]
fn replicas_stand_in_one_text() {
    assert_eq!(replicas_in("root://a//f | /data/f |  https://b/f"), ["root://a//f", "/data/f", "https://b/f"]);
    assert_eq!(replicas_in("/data/a|b.root"), ["/data/a|b.root"]);
}
