//! How files are read: what a user may choose, from the way of reading down to its sizes.

use std::path::PathBuf;

use crate::LocalWay;

/// In which portions and how early a file is read, in the words of the field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum AccessMode {
    /// Basket by basket in the order of the entries, as ROOT does without a cache.
    Plain,
    /// Branches are learned on the first entries, then the baskets of a cluster are read together, as TTreeCache does.
    Cache,
    /// All that is needed is known beforehand, joined and asked for early.
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
    /// The way of reading.
    pub mode: AccessMode,
    /// Every read goes through a buffer of this size at the client, which is filled from where a read misses it.
    pub read_ahead_bytes: Option<u64>,
    /// What the mode `cache` reads together at most.
    pub tree_cache_bytes: u64,
    /// How local files come into memory.
    pub local: LocalWay,
    /// The gap up to which two ranges are read as one.
    pub gap_bytes: Option<u64>,
    /// Requests that a file's server has to answer at a time.
    pub requests_in_flight: Option<usize>,
    /// Bytes that are asked for and not there yet, of all files that are read at a time.
    pub bytes_in_flight: Option<u64>,
    /// So many bytes of a file's begin are read next by who opens it: a place that answers with bytes when it is asked
    /// about a file keeps these.
    pub first_bytes: u64,
    /// Connections over which one XRootD server sends the bytes of one large read.
    pub streams: usize,
    /// Where copies of what was read are kept for the next time, if they are.
    pub cache_dir: Option<PathBuf>,
    /// What they may take there.
    pub cache_bytes: u64,
    /// Where the mode `stage` puts its copies; the system's folder for temporary files if nowhere else.
    pub stage_dir: Option<PathBuf>,
    /// How slow the storage is to be made, in the words of a [`crate::Throttle`].
    pub throttle: Option<String>,
    /// What is to go wrong at it, in the words of a [`crate::FaultPlan`].
    pub fault: Option<String>,
}

impl Default for Access {
    fn default() -> Self {
        Self {
            mode: AccessMode::default(),
            read_ahead_bytes: None,
            tree_cache_bytes: crate::limits::TREE_CACHE_BYTES,
            local: LocalWay::default(),
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
