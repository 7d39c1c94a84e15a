//! The folder of a cache, with its size limit and the eviction of segments.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

use rustix::fs::{flock, FlockOperation};

use crate::limits::{CACHE_FILE_BYTES, CACHE_LOOKS};

/// Name of the subfolder that holds the cache within the user's folder. Keeps segments apart from the user's files and
/// from caches of other Branchline versions.
const OWN_FOLDER: &str = "branchline-cache-1";

/// A folder of segments with a limited total size.
#[derive(Debug)]
pub(super) struct Folder {
    root: PathBuf,
    pub(super) limit_bytes: u64,
    size: Mutex<Size>,
}

/// Last measured size of the cache. The size is measured again from time to time, because other processes write to the
/// same folder.
#[derive(Debug, Default)]
struct Size {
    bytes: u64,
    looks_at: Option<u64>,
}

/// The cache folders that this process uses, by path and size limit.
type Folders = HashMap<(PathBuf, u64), Arc<Folder>>;

struct Found {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

impl Folder {
    /// Returns the cache folder below `parent`, which is shared by all files that this process caches in `parent`.
    pub(super) fn at(parent: &Path, limit_bytes: u64) -> io::Result<Arc<Self>> {
        static KNOWN: OnceLock<Mutex<Folders>> = OnceLock::new();
        let root = std::path::absolute(parent)?.join(OWN_FOLDER);
        // The folder is created with access for its owner only, because cached bytes may be private.
        DirBuilder::new().recursive(true).mode(0o700).create(&root)?;
        let mut known = KNOWN.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        let folder = known
            .entry((root.clone(), limit_bytes))
            .or_insert_with(|| Arc::new(Self { root, limit_bytes, size: Mutex::default() }));
        Ok(Arc::clone(folder))
    }

    /// Returns the folder for the segments of a file.
    pub(super) fn of_file(&self, key: &str) -> PathBuf {
        self.root.join(name_of(key))
    }

    /// Returns whether `bytes` more bytes fit into the cache, after evicting the least recently used segments if
    /// necessary.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        if bytes > self.limit_bytes / 2 {
            return false;
        }
        let mut size = self.size.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = size.looks_at.is_none_or(|looks_at| size.bytes + bytes > looks_at);
        if is_due || size.bytes + bytes > self.limit_bytes {
            size.bytes = self.shrink(bytes);
            size.looks_at = Some(size.bytes + bytes + self.limit_bytes / CACHE_LOOKS);
        }
        let fits = size.bytes + bytes <= self.limit_bytes;
        if fits {
            size.bytes += bytes;
        }
        fits
    }

    /// Evicts segments until `bytes` more bytes fit, and returns the total size of the remaining segments.
    fn shrink(&self, bytes: u64) -> u64 {
        let (mut segments, mut sum) = self.look();
        if sum + bytes <= self.limit_bytes {
            return sum;
        }
        // One evicting process at a time is enough. The other processes find free space later, or skip caching for now.
        let Ok(lock) = File::create(self.root.join("lock")) else { return sum };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return sum;
        }
        segments.sort_by(|one, other| one.used.cmp(&other.used).then_with(|| one.path.cmp(&other.path)));
        // Evict a little more than needed, so that not every new segment triggers an eviction.
        let aim = (self.limit_bytes - self.limit_bytes / CACHE_LOOKS).saturating_sub(bytes);
        for found in segments {
            if sum <= aim {
                break;
            }
            if fs::remove_file(&found.path).is_ok() {
                sum = sum.saturating_sub(found.bytes);
            }
            if let Some(folder) = found.path.parent() {
                // The removal fails unless the folder is empty.
                let _ = fs::remove_dir(folder);
            }
        }
        sum
    }

    /// Lists all segments and their total size in bytes.
    fn look(&self) -> (Vec<Found>, u64) {
        let (mut segments, mut sum) = (Vec::new(), 0u64);
        for path in entries(&self.root).iter().flat_map(|folder| entries(folder)) {
            let Ok(about) = fs::symlink_metadata(&path) else { continue };
            if about.is_file() {
                let bytes = about.len().max(about.blocks() * 512) + CACHE_FILE_BYTES;
                sum = sum.saturating_add(bytes);
                segments.push(Found { path, bytes, used: about.modified().unwrap_or(SystemTime::UNIX_EPOCH) });
            }
        }
        (segments, sum)
    }
}

pub(super) fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(found) = fs::read_dir(folder) else { return Vec::new() };
    found.filter_map(|one| one.ok().map(|one| one.path())).collect()
}

/// Creates the folder of a file.
pub(super) fn make(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Returns the name under which a version of a file, identified by `key`, is stored on the local disk.
pub(crate) fn name_of(key: &str) -> String {
    format!("{:016x}{:016x}", hash(key, 0xcbf2_9ce4_8422_2325), hash(key, 0x9e37_79b9_7f4a_7c15))
}

/// Returns the FNV-1a hash of `text` with the given start value.
fn hash(text: &str, start: u64) -> u64 {
    text.bytes().fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
