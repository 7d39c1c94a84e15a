//! How files are read: what a user may choose, from the access mode down to sizes.

use std::path::PathBuf;

use crate::LocalMode;

/// When and in which portions a file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum AccessMode {
    /// Basket by basket in the order of the entries, as ROOT does without a cache.
    Plain,
    /// Branches are learned on the first entries, then the baskets of a cluster are read together, as TTreeCache does.
    Cache,
    /// All ranges are planned beforehand, near ones are joined, and they are prefetched.
    #[default]
    Planned,
    /// The whole file into memory, the next one ahead.
    Prefetch,
    /// The whole file to a local disk first.
    Stage,
}

impl AccessMode {
    /// Each with the name that users give it.
    pub const NAMES: [(&'static str, Self); 5] = [
        ("plain", Self::Plain),
        ("cache", Self::Cache),
        ("planned", Self::Planned),
        ("prefetch", Self::Prefetch),
        ("stage", Self::Stage),
    ];

    /// The mode of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, mode)| *mode)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, mode)| *mode == self).map_or("", |(name, _)| name)
    }
}

/// All that may be chosen for reading; None where that is left to us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// The access mode.
    pub mode: AccessMode,
    /// Every read goes through a buffer of this size at the client, which is filled from where a read misses it.
    pub read_ahead_bytes: Option<u64>,
    /// Most bytes that the mode `cache` reads together.
    pub tree_cache_bytes: u64,
    /// How local files come into memory.
    pub local: LocalMode,
    /// The gap up to which two ranges are read as one.
    pub gap_bytes: Option<u64>,
    /// Requests that a file's server has to answer at a time.
    pub requests_in_flight: Option<usize>,
    /// Bytes in flight: requested and not received yet, over all files that are read at a time.
    pub bytes_in_flight: Option<u64>,
    /// This many bytes at the start of a file are read right after it is opened. A store that gets them with the answer
    /// to the opening keeps them.
    pub first_bytes: u64,
    /// Connections over which one XRootD server sends the bytes of one large read.
    pub streams: usize,
    /// The folder of the cache; None for no cache.
    pub cache_dir: Option<PathBuf>,
    /// Most bytes of the cache.
    pub cache_bytes: u64,
    /// The folder for copies of the mode `stage`; None for the system's folder for temporary files.
    pub stage_dir: Option<PathBuf>,
    /// How slow the storage is to be made, in the words of a [`crate::Throttle`].
    pub throttle: Option<String>,
    /// Faults to inject, in the words of a [`crate::FaultPlan`].
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
