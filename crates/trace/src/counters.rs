//! The list of all counters, and the atomics that hold their values.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Stopwatch;

/// Unit of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// A number of items.
    Count,
    /// Nanoseconds of wall time in one thread; the sum over threads may exceed the elapsed time.
    Nanoseconds,
}

impl Unit {
    /// Name of the unit: "bytes", "count" or "ns".
    pub fn name(self) -> &'static str {
        match self {
            Unit::Bytes => "bytes",
            Unit::Count => "count",
            Unit::Nanoseconds => "ns",
        }
    }
}

macro_rules! declare_counters {
    ($($counter:ident, $name:literal, $unit:ident, $description:literal;)*) => {
        /// All counters. To add one, add a line to the list in this file.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Counter {
            $(#[doc = $description] $counter,)*
        }

        impl Counter {
            /// All counters, in the order of the list.
            pub const ALL: &'static [Counter] = &[$(Counter::$counter,)*];

            /// Name of the counter in records.
            pub fn name(self) -> &'static str {
                match self { $(Counter::$counter => $name,)* }
            }

            /// Unit of the counter.
            pub fn unit(self) -> Unit {
                match self { $(Counter::$counter => Unit::$unit,)* }
            }

            /// Describes the counter in one sentence.
            pub fn description(self) -> &'static str {
                match self { $(Counter::$counter => $description,)* }
            }
        }
    };
}

declare_counters! {
    BytesAsked, "bytes_asked", Bytes, "Bytes requested from the store, including gaps between joined ranges.";
    GapBytes, "gap_bytes", Bytes, "Bytes requested only because nearby ranges were joined.";
    BytesRead, "bytes_read", Bytes, "Bytes actually read by the store.";
    CachedBytes, "cached_bytes", Bytes, "Bytes read from a local copy instead of the store.";
    ReadCalls, "read_calls", Count, "Read calls of the store: system calls or requests.";
    FetchNs, "fetch_ns", Nanoseconds, "Time inside the store's read calls.";
    OpenNs, "open_ns", Nanoseconds, "Time to open: header, keys, streamer info, tree metadata.";
    Baskets, "baskets", Count, "Baskets or pages decoded.";
    CompressedBytes, "compressed_bytes", Bytes, "Stored size of baskets or pages.";
    PlainBytes, "plain_bytes", Bytes, "Size of baskets or pages after decompression.";
    DecompressNs, "decompress_ns", Nanoseconds, "Time spent decompressing.";
    DecodeNs, "decode_ns", Nanoseconds, "Time spent decoding decompressed bytes into arrays.";
    LateReads, "late_reads", Count, "Reads of a branch after its chunk had been delivered.";
}

const COUNTERS_COUNT: usize = Counter::ALL.len();

/// Values of all counters for one measured object.
#[derive(Debug, Default)]
pub struct Counters {
    values: [AtomicU64; COUNTERS_COUNT],
}

impl Counters {
    /// Creates counters with the value zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `value` to a counter.
    #[inline]
    pub fn add(&self, counter: Counter, value: u64) {
        self.values[counter as usize].fetch_add(value, Ordering::Relaxed);
    }

    /// Runs `work` and adds its duration to `counter`, which must count nanoseconds.
    #[inline]
    pub fn timed<T>(&self, counter: Counter, work: impl FnOnce() -> T) -> T {
        debug_assert_eq!(counter.unit(), Unit::Nanoseconds, "{} is not a time", counter.name());
        let stopwatch = Stopwatch::start();
        let result = work();
        self.add(counter, stopwatch.elapsed_ns());
        result
    }

    /// Returns the current values. The snapshot is not atomic: other threads may update counters while it is taken.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { values: std::array::from_fn(|index| self.values[index].load(Ordering::Relaxed)) }
    }
}

/// Values of all counters at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Snapshot {
    values: [u64; COUNTERS_COUNT],
}

impl Snapshot {
    /// Returns the value of a counter.
    pub fn get(&self, counter: Counter) -> u64 {
        self.values[counter as usize]
    }

    /// Iterates over all counters with their values, in the order of the list.
    pub fn iter(&self) -> impl Iterator<Item = (Counter, u64)> + '_ {
        Counter::ALL.iter().map(|&counter| (counter, self.get(counter)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_end_in_their_unit() {
        let mut names: Vec<_> = Counter::ALL.iter().map(|counter| counter.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Counter::ALL.len());
        for &counter in Counter::ALL {
            let is_time = counter.name().ends_with("_ns");
            assert_eq!(is_time, counter.unit() == Unit::Nanoseconds, "{}", counter.name());
            assert!(counter.description().ends_with('.'), "{}", counter.name());
        }
    }

    #[test]
    fn a_snapshot_holds_what_was_added_and_nothing_else() {
        let counters = Counters::new();
        counters.add(Counter::BytesRead, 7);
        counters.add(Counter::BytesRead, 5);
        counters.add(Counter::LateReads, 1);
        let snapshot = counters.snapshot();
        counters.add(Counter::BytesRead, 100);
        let changed: Vec<_> = snapshot.iter().filter(|(_, value)| *value != 0).collect();
        assert_eq!(changed, [(Counter::BytesRead, 12), (Counter::LateReads, 1)]);
    }

    #[test]
    fn threads_lose_no_addition() {
        let counters = Counters::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|_| counters.add(Counter::Baskets, 1)));
            }
        });
        assert_eq!(counters.snapshot().get(Counter::Baskets), 40_000);
    }

    #[test]
    fn timed_gives_the_result_of_the_work_and_counts_its_time() {
        let counters = Counters::new();
        let pause = std::time::Duration::from_millis(2);
        let result = counters.timed(Counter::DecodeNs, || {
            std::thread::sleep(pause);
            42
        });
        assert_eq!(result, 42);
        assert!(u128::from(counters.snapshot().get(Counter::DecodeNs)) >= pause.as_nanos());
    }
}
