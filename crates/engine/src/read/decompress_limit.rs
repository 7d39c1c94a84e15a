//! Upper limits for the speed of reading and recompressing. As a baseline for reading, baskets are only decompressed;
//! as a baseline for recompressing, they are also compressed again.
//!
//! ```no_run
//! use branchline_engine::read::decompress_limit::{decompress_all, DecompressOptions};
//!
//! let options = DecompressOptions { threads: 2, setting: None };
//! let limit = decompress_all(&["data.root".to_string()], Some("events"), &[], options)?;
//! println!("{:.0} MB/s", limit.compressed_bytes as f64 / limit.seconds / 1e6);
//! # Ok::<(), branchline_engine::error::ReadError>(())
//! ```

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Instant;

use branchline_format::basket::BasketRecord;
use branchline_format::compress::{Compressor, Decompressor, Setting};
use branchline_format::error::FormatError;
use branchline_format::ntuple::cluster::Scratch;
use branchline_slab::Pool;
use branchline_storage::Access;

use crate::error::{guarded, ReadError, Result};
use crate::fetch::basket_source::BasketSource;
use crate::fetch::room::Room;
use crate::file::File;
use crate::read::decode::chunk::Chunk;
use crate::read::decode::pages::decompress_cluster;
use crate::read::plan::fetch::fetch;
use crate::read::plan::needed::needed_baskets;
use crate::tree::Tree;

/// Options of `decompress_all`.
#[derive(Debug, Clone, Copy)]
pub struct DecompressOptions {
    /// Number of threads; must be at least one.
    pub threads: usize,
    /// If set, every basket is compressed again with this setting.
    pub setting: Option<Setting>,
}

/// Result of `decompress_all`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Decompressed {
    /// Wall time of the decompression alone.
    pub seconds: f64,
    /// Number of baskets.
    pub baskets: u64,
    /// Bytes in the files.
    pub compressed_bytes: u64,
    /// Bytes after decompression.
    pub plain_bytes: u64,
}

/// Decompresses every basket of these branches, or of all readable branches if `names` is empty. The stored bytes are
/// fetched first, and each thread reuses one output buffer. If a setting is given, each basket or page is compressed
/// again with the setting, and the result is dropped.
pub fn decompress_all(
    paths: &[String],
    tree: Option<&str>,
    names: &[String],
    options: DecompressOptions,
) -> Result<Decompressed> {
    let mut sources = Vec::new();
    for path in paths {
        let tree = File::open(path, &Access::default())?.tree(tree)?;
        let columns = if names.is_empty() {
            tree.readable().collect()
        } else {
            names.iter().map(|name| tree.find(name)).collect::<Result<Vec<_>>>()?
        };
        let entries = 0..tree.entries_count();
        let chunk = Chunk::new(tree, 0, entries, columns, &Pool::new(0));
        let needed = needed_baskets(&chunk)?;
        let fetched = fetch(&chunk, &needed, Room::Free)?;
        for (one, source) in needed.iter().zip(fetched) {
            let branch = chunk.columns[one.column];
            let entries = chunk.tree.basket_entries(branch, one.basket);
            let entries_count = entries.end - entries.start;
            sources.push(Stored { tree: Arc::clone(&chunk.tree), source, entries_count });
        }
    }
    let next = AtomicUsize::new(0);
    let started = Instant::now();
    let DecompressOptions { threads, setting } = options;
    let parts: Vec<Result<Decompressed>> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads.max(1))
            .map(|_| scope.spawn(|| guarded("", || decompress_part(&sources, &next, setting))))
            .collect();
        running.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    let mut total = Decompressed { seconds: started.elapsed().as_secs_f64(), ..Decompressed::default() };
    for part in parts {
        let part = part?;
        total.baskets += part.baskets;
        total.compressed_bytes += part.compressed_bytes;
        total.plain_bytes += part.plain_bytes;
    }
    Ok(total)
}

/// A basket in memory.
struct Stored {
    tree: Arc<Tree>,
    source: BasketSource,
    entries_count: u64,
}

fn decompress_part(sources: &[Stored], next: &AtomicUsize, setting: Option<Setting>) -> Result<Decompressed> {
    let (mut decompressor, mut compressor) = (Decompressor::new(), Compressor::new());
    let (mut plain, mut stored) = (Vec::new(), Vec::new());
    let mut scratch = Scratch::default();
    let mut done = Decompressed::default();
    let mut compress = |bytes: &[u8]| {
        if let Some(setting) = setting {
            stored.clear();
            compressor.compress(setting, bytes, &mut stored);
        }
    };
    while let Some(Stored { tree, source, entries_count }) = sources.get(next.fetch_add(1, Ordering::Relaxed)) {
        let failed = |error: FormatError| ReadError::from_format(tree.file().path(), &error);
        match source {
            BasketSource::Record(_) => {
                let record = BasketRecord::parse(source.stored(), *entries_count).map_err(failed)?;
                let size = record.plain_size().map_err(failed)?;
                let bytes = record.decompress(&mut decompressor, &mut plain).map_err(failed)?;
                compress(bytes);
                done.plain_bytes += size as u64;
            }
            BasketSource::Pages(pages) => {
                let size = decompress_cluster(pages, &mut decompressor, &mut scratch, &mut compress);
                done.plain_bytes += size.map_err(failed)?;
            }
            BasketSource::Embedded(_) | BasketSource::Shared(_) => {}
        }
        done.baskets += 1;
        done.compressed_bytes += source.stored_bytes() as u64;
    }
    Ok(done)
}
