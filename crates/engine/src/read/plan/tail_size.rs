//! How much of a small file is read when it is opened and few of its branches are wanted: learned from those before it.

use std::sync::{Mutex, PoisonError};

use branchline_storage::{is_worth_a_round_trip, Link};

use crate::limits::{HEAD_BYTES, TAIL_BYTES, TAIL_MIN_BYTES};
use crate::tree::Tree;

/// Where a file lies, by what a request costs beside the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FilePlace {
    /// On a disk of this machine: hardly more than copying the bytes.
    Disk,
    /// On a mounted file system: a round trip of unknown length.
    Mount,
    /// At a server: a round trip, and the bytes cost more, however near it is.
    Server,
}

impl FilePlace {
    /// The place of a file by its storage element, and whether it is on a disk of this machine.
    pub(crate) fn of(store_name: &str, is_near: bool) -> Self {
        match (store_name.contains("://"), is_near) {
            (true, _) => Self::Server,
            (false, true) => Self::Disk,
            (false, false) => Self::Mount,
        }
    }
}

/// What was seen of the files of a stream so far.
#[derive(Debug, Default)]
pub(crate) struct TailSizes(Mutex<Option<Seen>>);

#[derive(Debug, Clone, Copy, PartialEq)]
struct Seen {
    /// From where its metadata begin to the end of the file.
    tail_bytes: u64,
    /// The part of a file that the wanted baskets are.
    wanted_share: f64,
}

impl TailSizes {
    /// After a file whose metadata take this many bytes at its end, and of which this part is wanted.
    pub(crate) fn having_seen(tail_bytes: u64, wanted_share: f64) -> Self {
        Self(Mutex::new(Some(Seen { tail_bytes, wanted_share })))
    }

    /// Learns from a file whose tree is open.
    pub(crate) fn learn(&self, tree: &Tree, columns: &[usize]) {
        let (file, size) = (tree.file(), tree.file().size_bytes());
        let Some(first) = tree.content().metadata_start(file, tree.offset()) else { return };
        let wanted = tree.bytes_per_entry(columns).stored * tree.entries_count() as f64;
        let seen = Seen { tail_bytes: size.saturating_sub(first), wanted_share: wanted / size.max(1) as f64 };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen);
    }

    /// How much of the end of a file of this size is read; None for the whole file. The first file on a disk is read
    /// whole: what is learned from it says whether most of the next ones is wanted.
    pub(crate) fn tail_bytes(&self, place: FilePlace, link: Option<Link>, size: u64) -> Option<u64> {
        let seen = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if place == FilePlace::Mount || size < TAIL_BYTES {
            return (!is_worth_a_round_trip(link, size)).then_some(TAIL_BYTES);
        }
        let Some(Seen { tail_bytes, wanted_share }) = seen else {
            return (place == FilePlace::Server).then(|| first_tail_bytes(size));
        };
        let tail = (tail_bytes + tail_bytes / 4).clamp(TAIL_MIN_BYTES, TAIL_BYTES);
        let moved = (HEAD_BYTES + tail) as f64 + wanted_share * size as f64;
        (moved <= size as f64 / 2.0).then_some(tail)
    }
}

/// The tail of the first file: metadata grow with the file, but not as fast.
fn first_tail_bytes(size: u64) -> u64 {
    const PARTS: u64 = 32;
    (size / PARTS).clamp(TAIL_MIN_BYTES, TAIL_BYTES)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn having_seen(tail_bytes: u64, wanted_share: f64) -> TailSizes {
        TailSizes::having_seen(tail_bytes, wanted_share)
    }

    fn link(ms: u64, mb_per_second: f64) -> Option<Link> {
        Some(Link { round_trip: Duration::from_millis(ms), bytes_per_second: mb_per_second * 1e6 })
    }

    #[test]
    fn files_on_mounts_are_read_whole() {
        for link in [None, link(0, 2000.0), link(1, 500.0)] {
            assert_eq!(TailSizes::default().tail_bytes(FilePlace::Mount, link, 3_000_000), None);
            assert_eq!(having_seen(60_000, 0.01).tail_bytes(FilePlace::Mount, link, 3_000_000), None);
        }
    }

    #[test]
    fn of_files_on_disks_only_what_is_wanted_is_read_once_a_file_was_seen() {
        for link in [None, link(0, 2000.0)] {
            let tail = |sizes: TailSizes, size| sizes.tail_bytes(FilePlace::Disk, link, size);
            assert_eq!(tail(TailSizes::default(), 3_000_000), None);
            assert_eq!(tail(having_seen(80_000, 0.3), 3_000_000), Some(100_000));
            assert_eq!(tail(having_seen(80_000, 0.6), 3_000_000), None);
            assert_eq!(tail(having_seen(80_000, 0.01), 500_000), None);
        }
    }

    #[test]
    fn a_place_is_told_by_its_storage_element() {
        assert_eq!(FilePlace::of("root://se.example", false), FilePlace::Server);
        assert_eq!(FilePlace::of("/data", true), FilePlace::Disk);
        assert_eq!(FilePlace::of("/eos", false), FilePlace::Mount);
    }

    #[test]
    fn of_files_at_servers_only_what_is_wanted_is_read() {
        let size = 3_000_000;
        for link in [link(0, 0.0), link(100, 0.0)] {
            assert_eq!(TailSizes::default().tail_bytes(FilePlace::Server, link, size), Some(size / 32));
        }
        for link in [link(0, 800.0), link(100, 300.0)] {
            assert_eq!(having_seen(80_000, 0.01).tail_bytes(FilePlace::Server, link, size), Some(100_000));
            // Most of it is wanted.
            assert_eq!(having_seen(80_000, 0.6).tail_bytes(FilePlace::Server, link, size), None);
            // Another request would take longer than the rest of the file.
            assert_eq!(having_seen(80_000, 0.01).tail_bytes(FilePlace::Server, link, 500_000), None);
        }
    }

    #[test]
    fn what_files_say_of_themselves_sets_no_size() {
        assert_eq!(
            having_seen(u64::MAX / 2, 0.0).tail_bytes(FilePlace::Server, link(100, 300.0), 1 << 40),
            Some(TAIL_BYTES)
        );
        assert_eq!(having_seen(10, f64::INFINITY).tail_bytes(FilePlace::Server, link(100, 300.0), 1 << 40), None);
    }
}
