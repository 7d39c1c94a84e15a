//! Options for reading files, such as the access mode and request sizes.

use std::path::PathBuf;

use crate::{LocalMode, Waits};

/// Strategy that determines when, and in how large pieces, a file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum AccessMode {
    /// Basket by basket in the order of the entries, as ROOT reads without a cache.
    Plain,
    /// Learns the used branches from the first entries, then reads the baskets of a cluster together, like TTreeCache.
    Cache,
    /// Plans all ranges in advance, joins nearby ranges, and prefetches them.
    #[default]
    Planned,
    /// Reads whole files into memory, and the next file in advance.
    Prefetch,
    /// Copies whole files to a local disk before reading.
    Stage,
}

impl AccessMode {
    /// All modes with their names.
    pub const NAMES: [(&'static str, Self); 5] = [
        ("plain", Self::Plain),
        ("cache", Self::Cache),
        ("planned", Self::Planned),
        ("prefetch", Self::Prefetch),
        ("stage", Self::Stage),
    ];

    /// Returns the mode with this name; None if there is no such mode.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, mode)| *mode)
    }

    /// Returns the name of the mode.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, mode)| *mode == self).map_or("", |(name, _)| name)
    }
}

/// Options for reading. A value of None stands for the default.
#[derive(Debug, Clone, PartialEq)]
pub struct Access {
    /// Access mode.
    pub mode: AccessMode,
    /// Size of a client-side read-ahead buffer through which all reads go; no buffer if None. A miss refills the
    /// buffer, starting at the missed offset.
    pub read_ahead_bytes: Option<u64>,
    /// Maximum number of bytes that the mode `cache` reads together.
    pub tree_cache_bytes: u64,
    /// Mode of reading local files.
    pub local: LocalMode,
    /// Largest gap across which two ranges are read as one.
    pub gap_bytes: Option<u64>,
    /// Maximum number of pending requests to a storage element.
    pub requests_in_flight: Option<usize>,
    /// Maximum number of bytes in flight, summed over all files that are read at the same time.
    pub bytes_in_flight: Option<u64>,
    /// Number of bytes at the start of a file that are read directly after opening. A store keeps these bytes if they
    /// arrive in the response that opens the file.
    pub first_bytes: u64,
    /// Number of connections over which one XRootD server sends the bytes of a large read.
    pub streams: usize,
    /// Folder of the cache; None for no cache.
    pub cache_dir: Option<PathBuf>,
    /// Maximum size of the cache.
    pub cache_bytes: u64,
    /// Folder for copies made by the mode `stage`; None for the system's temporary folder.
    pub stage_dir: Option<PathBuf>,
    /// Settings for the timeouts, retries and pauses of network requests.
    pub waits: Waits,
    /// Emulated link, in the syntax of [`crate::Throttle`].
    pub throttle: Option<String>,
    /// Injected faults, in the syntax of [`crate::FaultPlan`].
    pub fault: Option<String>,
}

impl Default for Access {
    fn default() -> Self {
        Self {
            mode: AccessMode::default(),
            read_ahead_bytes: None,
            tree_cache_bytes: crate::limits::TREE_CACHE_BYTES,
            local: LocalMode::default(),
            gap_bytes: None,
            requests_in_flight: None,
            bytes_in_flight: None,
            first_bytes: 0,
            streams: 1,
            cache_dir: None,
            cache_bytes: crate::limits::CACHE_BYTES,
            stage_dir: None,
            waits: Waits::default(),
            throttle: None,
            fault: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_has_a_name_that_finds_it() {
        for (name, mode) in AccessMode::NAMES {
            assert_eq!((AccessMode::named(name), mode.name()), (Some(mode), name));
        }
        assert_eq!(AccessMode::named("Plain"), None);
    }
}
