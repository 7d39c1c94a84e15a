//! How files are read in each access mode. Only `Strategy::of` looks at the access mode; all other code asks the
//! strategy.

use branchline_storage::{Access, AccessMode, Choice, Link};

use crate::limits;

/// What to read whole, what to prefetch, and how to read baskets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Strategy {
    pub(crate) whole_files: WholeFiles,
    prefetch: Prefetch,
    baskets: BasketReads,
}

/// Which files a stream reads whole when it opens them. For all other files, the stream reads the head and the tail
/// first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WholeFiles {
    /// No files.
    Never,
    /// Small files, except files on servers from which only a part is needed.
    Small,
    /// All files that fit in memory.
    Always,
}

/// What is prefetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Prefetch {
    Nothing,
    /// The next file, however short the round-trip time is.
    NextFile,
    /// As many files and chunks as are needed to hide the round-trip time.
    ByLink,
}

/// How to read the baskets that a chunk needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BasketReads {
    /// Planned together: nearby baskets are coalesced, and bytes that were read with the metadata are not read again.
    Planned,
    /// One basket at a time, in entry order.
    OneByOne,
    /// In entry order, with as many baskets in a request as fit in a cache of this size.
    ThroughCache { bytes: u64 },
}

impl Strategy {
    /// Returns the strategy for the access settings.
    pub(crate) fn of(access: &Access) -> Self {
        let (whole_files, prefetch, baskets) = match access.mode {
            AccessMode::Plain => (WholeFiles::Never, Prefetch::Nothing, BasketReads::OneByOne),
            AccessMode::Cache => {
                (WholeFiles::Never, Prefetch::Nothing, BasketReads::ThroughCache { bytes: access.tree_cache_bytes })
            }
            AccessMode::Planned => (WholeFiles::Small, Prefetch::ByLink, BasketReads::Planned),
            AccessMode::Prefetch => (WholeFiles::Always, Prefetch::NextFile, BasketReads::Planned),
            // A separate store copies files to the local disk, see `branchline_storage::open`.
            AccessMode::Stage => (WholeFiles::Small, Prefetch::NextFile, BasketReads::Planned),
        };
        Self { whole_files, prefetch, baskets }
    }

    /// Returns the number of bytes to read from the end of a file that is opened outside a stream; None to read the
    /// whole file. Local files between `NEAR_WHOLE_BYTES` and `WHOLE_FILE_BYTES` are only read whole if the access mode
    /// requires it. Otherwise the usual size of the metadata is read, because another read costs little and it is
    /// unknown how much more will be read.
    pub(crate) fn tail_bytes(self, size: u64, is_near: bool) -> Option<u64> {
        if self.whole_files == WholeFiles::Never || size > limits::WHOLE_FILE_BYTES {
            return Some(limits::TAIL_BYTES);
        }
        let near_tail = (size / limits::NEAR_TAIL_DIVISOR).clamp(limits::NEAR_WHOLE_BYTES / 2, limits::TAIL_BYTES);
        (is_near && self.reads_ends_of_near(size)).then_some(near_tail)
    }

    /// Whether only the head and the tail of a local file are read when it is opened, although the file is small enough
    /// to be read whole.
    pub(crate) fn reads_ends_of_near(self, size: u64) -> bool {
        self.whole_files == WholeFiles::Small && size > limits::NEAR_WHOLE_BYTES && size <= limits::WHOLE_FILE_BYTES
    }

    /// Whether each record is read by a separate request, even if its bytes are already loaded: users compare these
    /// access modes by their requests.
    pub(crate) fn reads_records_alone(self) -> bool {
        self.baskets != BasketReads::Planned
    }

    /// Maximum number of bytes in a request for several baskets, or None if unlimited. A basket that exceeds the
    /// maximum is read by its own request.
    pub(crate) fn bytes_together(self) -> Option<u64> {
        match self.baskets {
            BasketReads::Planned => None,
            BasketReads::OneByOne => Some(0),
            BasketReads::ThroughCache { bytes } => Some(bytes),
        }
    }

    /// Size of the cache that learns from the first entries which branches are read; None if there is no such cache.
    pub(crate) fn learning_cache_bytes(self) -> Option<u64> {
        match self.baskets {
            BasketReads::ThroughCache { bytes } => Some(bytes),
            BasketReads::Planned | BasketReads::OneByOne => None,
        }
    }

    /// Whether the ranges of the next chunks are prefetched and the first file of a stream is opened by a prefetch
    /// thread.
    pub(crate) fn prefetches_chunks(self) -> bool {
        self.prefetch == Prefetch::ByLink
    }

    /// Whether a merge reads the baskets of a local file only when it writes them.
    pub(crate) fn reads_when_writing(self) -> bool {
        self.prefetch == Prefetch::ByLink
    }

    /// Returns how much to prefetch at a time over a link from a store with the coalescing gap `gap_bytes`. Returns
    /// None if nothing is prefetched.
    pub(crate) fn choice(self, access: &Access, link: Option<Link>, gap_bytes: u64) -> Option<Choice> {
        let mut choice = Choice::of(access, link, gap_bytes);
        match self.prefetch {
            Prefetch::Nothing => return None,
            Prefetch::NextFile if access.requests_in_flight.is_none() => {
                choice.requests_in_flight = choice.requests_in_flight.max(1);
            }
            Prefetch::NextFile | Prefetch::ByLink => {}
        }
        (choice.requests_in_flight > 0).then_some(choice)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn access(mode: &str) -> Access {
        Access { mode: AccessMode::named(mode).unwrap(), ..Access::default() }
    }

    fn strategy(mode: &str) -> Strategy {
        Strategy::of(&access(mode))
    }

    #[test]
    fn plain_and_cache_read_each_record_for_itself_and_nothing_early() {
        for mode in ["plain", "cache"] {
            let strategy = strategy(mode);
            assert!(strategy.reads_records_alone() && !strategy.prefetches_chunks());
            assert_eq!(strategy.tail_bytes(1, false), Some(limits::TAIL_BYTES));
            let far = Some(Link { round_trip: Duration::from_millis(100), bytes_per_second: 1e8 });
            assert_eq!(strategy.choice(&access(mode), far, 0), None);
        }
        assert_eq!((strategy("plain").bytes_together(), strategy("plain").learning_cache_bytes()), (Some(0), None));
        let cache = Strategy::of(&Access { tree_cache_bytes: 77, ..access("cache") });
        assert_eq!((cache.bytes_together(), cache.learning_cache_bytes()), (Some(77), Some(77)));
    }

    #[test]
    fn the_other_modes_read_small_files_whole_and_baskets_together() {
        for mode in ["planned", "prefetch", "stage"] {
            let strategy = strategy(mode);
            assert!(!strategy.reads_records_alone());
            assert_eq!(strategy.tail_bytes(limits::WHOLE_FILE_BYTES, false), None);
            assert_eq!(strategy.tail_bytes(limits::WHOLE_FILE_BYTES + 1, false), Some(limits::TAIL_BYTES));
            let near = [256 << 10, 1 << 20, 8 << 20, 9 << 20].map(|size| strategy.tail_bytes(size, true));
            let small = if mode == "prefetch" { [None; 3] } else { [None, Some(128 << 10), Some(256 << 10)] };
            assert_eq!((&near[..3], near[3]), (small.as_slice(), Some(limits::TAIL_BYTES)));
            assert_eq!((strategy.bytes_together(), strategy.learning_cache_bytes()), (None, None));
        }
    }

    #[test]
    fn only_the_planned_access_prefetches_by_the_link() {
        let requests = |mode: &str, requests_in_flight| {
            let access = Access { requests_in_flight, ..access(mode) };
            strategy(mode).choice(&access, None, 0).map(|choice| choice.requests_in_flight)
        };
        assert_eq!((requests("planned", None), requests("planned", Some(3))), (None, Some(3)));
        for mode in ["prefetch", "stage"] {
            assert_eq!(
                (requests(mode, None), requests(mode, Some(3)), requests(mode, Some(0))),
                (Some(1), Some(3), None)
            );
        }
    }
}
