//! Decides how much of a small file is read when it is opened and only some of its branches are wanted, based on
//! observations from the previous files.

use std::sync::{Mutex, PoisonError};

use branchline_storage::{is_worth_a_round_trip, Link};

use crate::limits::{HEAD_BYTES, TAIL_BYTES, TAIL_MIN_BYTES};
use crate::tree::Tree;

/// The kind of place where a file is. It determines the cost of a request apart from the cost of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FilePlace {
    /// A local disk: a request costs little more than copying the bytes.
    Disk,
    /// A mounted file system: a request costs a round trip of unknown length.
    Mount,
    /// A server: a request costs a round trip. Even if the server is close, each byte costs more than on a disk.
    Server,
}

impl FilePlace {
    /// Returns the kind of place for a storage element. `is_near` means that it is a local disk.
    pub(crate) fn of(store_name: &str, is_near: bool) -> Self {
        match (store_name.contains("://"), is_near) {
            (true, _) => Self::Server,
            (false, true) => Self::Disk,
            (false, false) => Self::Mount,
        }
    }
}

/// Observations from the previous files of a stream.
#[derive(Debug, Default)]
pub(crate) struct TailSizes(Mutex<Option<Seen>>);

#[derive(Debug, Clone, Copy, PartialEq)]
struct Seen {
    /// Distance from the start of the metadata to the end of the file.
    tail_bytes: u64,
    /// Fraction of the file that the wanted baskets make up.
    wanted_share: f64,
}

impl TailSizes {
    /// Creates the state after a file with this size of the metadata at its end, and with this fraction of wanted
    /// bytes.
    pub(crate) fn having_seen(tail_bytes: u64, wanted_share: f64) -> Self {
        Self(Mutex::new(Some(Seen { tail_bytes, wanted_share })))
    }

    /// Records the observations from a file whose tree has been opened.
    pub(crate) fn learn(&self, tree: &Tree, columns: &[usize]) {
        let (file, size) = (tree.file(), tree.file().size_bytes());
        let Some(first) = tree.content().metadata_start(file, tree.offset()) else { return };
        let wanted = tree.bytes_per_entry(columns).stored * tree.entries_count() as f64;
        let seen = Seen { tail_bytes: size.saturating_sub(first), wanted_share: wanted / size.max(1) as f64 };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen);
    }

    /// Returns the number of bytes to read from the end of a file of this size. Returns None to read the whole file.
    /// The first file on a disk is read whole; it shows which fraction of the following files will be wanted.
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

/// Returns the number of bytes to read from the end of the first file. The metadata grow with the file, but more
/// slowly.
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
            // Read the whole file, because most of it is wanted.
            assert_eq!(having_seen(80_000, 0.6).tail_bytes(FilePlace::Server, link, size), None);
            // Read the whole file, because another request would take longer than reading the rest.
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
