//! The limits of the engine, each with its reason.
//!
//! ```
//! use branchline_engine::limits::{HEAD_BYTES, WHOLE_FILE_BYTES};
//!
//! assert!(HEAD_BYTES < WHOLE_FILE_BYTES);
//! ```

use branchline_slab::limits::POOLED_BYTES_MIN;
use branchline_storage::limits::MAX_JOINED_BYTES;

/// Maximum size of a file that is read whole when it is opened: this takes one request, however many branches are read.
/// Any storage delivers 8 MiB in a few milliseconds, less than a second round trip to a distant server.
pub const WHOLE_FILE_BYTES: u64 = 8 << 20;
/// Maximum size of a file on a local disk that is read whole when it is opened. A request to a disk takes microseconds,
/// and most users read only a few branches.
pub const NEAR_WHOLE_BYTES: u64 = 256 << 10;
/// Number of metadata ranges after which the rest of a small local file is read at once. A file with one tree needs
/// four to six ranges.
pub const NEAR_METADATA_RANGES: usize = 16;
/// Number of bytes read first from the end of a local file between `NEAR_WHOLE_BYTES` and `WHOLE_FILE_BYTES`: the file
/// size divided by this. The metadata at the end grow with the file.
pub const NEAR_TAIL_DIVISOR: u64 = 32;
/// Number of bytes read from the start of a file that is not read whole: the header and the top directory.
pub const HEAD_BYTES: u64 = 16 << 10;
/// Number of bytes read from the end of a file that is not read whole: ROOT writes trees, streamer infos and keys last.
pub const TAIL_BYTES: u64 = 1 << 20;
/// Minimum number of bytes read from the end of a small file: a shorter range would not make the request faster.
pub const TAIL_MIN_BYTES: u64 = 64 << 10;
/// Minimum round-trip time for opening connections in advance: opening a connection takes two round trips.
pub(crate) const FAR_ROUND_TRIP_MIN: std::time::Duration = std::time::Duration::from_millis(20);
/// Minimum size of a read when a decoder is missing bytes of metadata.
pub const METADATA_PIECE_BYTES: u64 = 64 << 10;
/// Size of the reads that scan the records of a file that was never closed. One read covers several small records.
pub const RECOVERY_PIECE_BYTES: u64 = 16 << 10;
/// Size of the reads that scan the records of a file that was never closed, if the file is on a server, where each read
/// costs a round trip: at 30 MB/s, reading this many bytes takes as long as a round trip of 30 ms.
pub const FAR_RECOVERY_PIECE_BYTES: u64 = 1 << 20;
/// Maximum number of metadata reads of a file. A file that needs more is damaged.
pub const METADATA_PIECES_MAX: usize = 4096;
/// Maximum number of directories read in one request. Without a limit, a file with 20,000 directories would need a huge
/// request.
pub const METADATA_RANGES_MAX: usize = 4096;
/// Maximum size of the default values generated for branches that an input lacks: a damaged file may claim any number
/// of entries.
pub const MISSING_ENTRIES_BYTES: u64 = 64 << 20;
/// Size of a generated basket of default values. The size is limited because ROOT keeps one basket of each branch in
/// memory.
pub const FILLED_BASKET_BYTES: usize = 64 << 10;
/// Maximum number of names that an error message lists; the remaining names are only counted.
pub const NAMES_SHOWN: usize = 10;
/// Maximum number of parsed streamer info lists in the cache. All files of a dataset usually have the same list.
pub const CLASS_INFOS_KEPT: usize = 16;
/// Maximum size of a streamer info list that is cached, in stored bytes. The largest experiments need 100 kB.
pub const CLASS_INFOS_KEPT_BYTES: usize = 1 << 20;
/// Maximum number of other files that may hold baskets of a tree: all of them are opened together with the tree.
pub const EXTERNAL_FILES_MAX: usize = 1000;
/// Approximate number of stored bytes in a bundle of baskets that is sent to the decoders. Bundles keep the overhead of
/// the queue small.
pub const BUNDLE_BYTES: usize = 128 << 10;
/// Maximum number of chunks that are fetched and decoded ahead of the current chunk, in addition to one chunk per
/// decoder.
pub const CHUNKS_AHEAD: usize = 2;
/// Maximum size of a chunk: the leased memory divided by this. The rest is needed because the caller still holds one
/// chunk, another is being decoded, one or two are queued, and the fetched bytes need memory too.
pub const CHUNK_MEMORY_DIVISOR: u64 = 6;
/// Minimum memory that large baskets must leave for a chunk: the leased memory divided by this. If they leave less, the
/// memory limit is too small: every chunk would decompress the same baskets again for a few entries.
pub const CHUNK_MEMORY_DIVISOR_MAX: u64 = 12;
/// Memory reserved for decompressing baskets: the leased memory divided by this. Bytes carried over from chunk to chunk
/// may take the same amount. Only a single larger basket may exceed the limit.
pub const BASKET_MEMORY_DIVISOR: u64 = 8;
/// Maximum memory in which all decoders together may decompress baskets: the leased memory divided by this, if that
/// much is free.
pub const SCRATCH_MEMORY_DIVISOR: u64 = 4;
/// Maximum size of a basket that is decompressed into the decoder's private buffer. Nearly all baskets that ROOT writes
/// are smaller.
pub const OWN_SCRATCH_BYTES: u64 = 1 << 20;
/// Maximum total size of the private buffers of all decoders: the memory limit divided by this.
pub const OWN_SCRATCH_MEMORY_DIVISOR: u64 = 16;
/// Maximum total size of the decompression buffers that finished streams keep for later streams, until the process
/// exits. The memory limits of other running streams do not count these buffers.
pub const SPARE_SCRATCH_BYTES: usize = 16 << 20;
/// Maximum number of decompression buffers that finished streams keep: searching this many takes less time than
/// touching the pages of a new buffer.
pub const SPARE_SCRATCH_COUNT: usize = 64;
/// Maximum total size of the free buffers for stored bytes: the memory limit divided by this.
pub const READ_BUFFERS_MEMORY_DIVISOR: u64 = 16;
/// Maximum size of a file that is read whole: the memory limit divided by this.
pub const WHOLE_FILE_MEMORY_DIVISOR: u64 = 16;
/// Maximum size of the prefetched bytes: the memory limit divided by this.
pub const PREFETCH_MEMORY_DIVISOR: u64 = 8;
/// Maximum number of chunks prefetched at a time: even if each has only a few baskets, this many saturate any link.
pub const CHUNKS_PREFETCHED_MAX: usize = 64;
/// Number of entries from which the access mode `cache` learns which branches are read, as in TTreeCache.
pub const LEARN_ENTRIES: u64 = 100;
/// Maximum total size of the output buffers kept for the next chunk: the memory limit divided by this.
pub const POOL_MEMORY_DIVISOR: u64 = 8;
/// Minimum number of entries in a chunk, however large the entries are.
pub const CHUNK_ENTRIES_MIN: u64 = 1;
/// Maximum total size of the free buffers for stored bytes: enough for a few small files, or for four coalesced reads,
/// whose buffers are slightly larger than their data.
pub const READ_BUFFERS_BYTES: usize = 4 * (MAX_JOINED_BYTES as usize + POOLED_BYTES_MIN);
/// Maximum number of bundles in the decoder queue. The memory budget of their chunks already limits their bytes.
pub const BUNDLES_WAITING: usize = 1 << 16;
/// Maximum plausible ratio of the output size to the stored bytes: codecs shrink constant data to less than a
/// thousandth, and decoding makes values larger. If a file claims more, memory is allocated only after decompression.
pub const PLAUSIBLE_FACTOR: usize = 4096;
/// Maximum interval at which a thread waiting for memory checks whether the stream was closed.
pub const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_millis(100);
/// Maximum interval between two checkpoints, at which a merge syncs its output and journals its progress. The request
/// also sets a maximum number of bytes between two checkpoints (`journal_bytes`).
pub const JOURNAL_PAUSE: std::time::Duration = std::time::Duration::from_secs(10);
/// Maximum number of attempts to create an output while another process checks whether the output is a leftover.
pub const OUTPUT_BEGINNINGS_COUNT: u32 = 20;
/// Pause between two attempts to create an output, see [`OUTPUT_BEGINNINGS_COUNT`].
pub const OUTPUT_BEGINNING_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);
/// Minimum total size of the small object baskets that one task decodes into one piece of a column: enough to amortize
/// the cost of creating the many columns of a class.
pub const PIECE_BYTES: u64 = 256 << 10;
/// Maximum total size of the small object baskets that one task decodes into one piece of a column: buffers up to this
/// size are reused after they are freed.
pub const PIECE_BYTES_MAX: u64 = 4 << 20;
/// Approximate number of pieces of a column per decoder, so that all decoders have work until the end.
pub const PIECES_PER_DECODER: u64 = 4;
/// Number of bytes of baskets copied at a time: enough for a store to coalesce adjacent baskets, without taking much
/// memory.
pub const COPIED_AT_ONCE_BYTES: u64 = 32 << 20;
/// Memory for the baskets of a tree that a program copies into its own file, in addition to the program's arrays. It
/// holds two bundles.
pub const COPIED_TREE_MEMORY_BYTES: u64 = 256 << 20;
/// Number of bytes copied at a time where reads are cheap: they fit in the cache of a CPU core.
pub const COPIED_PIECE_BYTES: u64 = 1 << 20;
/// Maximum size of a write that combines small records of an output.
pub const WRITTEN_TOGETHER_BYTES: usize = 256 << 10;
/// Number of written bytes after which the kernel is asked to start writing them to disk: as much as a few of the
/// largest disk requests.
pub const WRITTEN_BACK_AT_ONCE_BYTES: u64 = 16 << 20;
/// Minimum size of an output for which disk space is preallocated. For smaller outputs, preallocation costs more than
/// it gains.
pub const ROOM_FROM_BYTES: u64 = 16 << 20;
/// Amount of disk space that is preallocated at a time: larger than a single write, so that few calls are needed, but
/// small enough that little is left to release at the end.
pub const ROOM_AT_ONCE_BYTES: u64 = 128 << 20;
/// Default maximum size of a new basket before compression. Larger baskets would not be faster to read, and would take
/// more memory, because ROOT keeps one basket of each branch in memory.
pub const BASKET_BYTES: usize = 1 << 20;
/// Default approximate size of a new cluster, equal to TTree's default for fAutoFlush.
pub const CLUSTER_BYTES: u64 = 30_000_000;
/// Number of stored bytes of entries that are rewritten into new baskets at a time, regardless of cluster boundaries.
/// This limits the memory.
pub const REWRITTEN_AT_ONCE_BYTES: u64 = 64 << 20;
/// Maximum stored bytes of entries that are being rewritten: the memory limit divided by this. Much more memory is
/// needed in total, because decompressed entries are several times larger, and the new baskets stay in memory until
/// they are written.
pub const REWRITING_MEMORY_DIVISOR: u64 = 16;
/// Maximum number of decompressed bytes in baskets queued for the compressors or the disk: enough that each thread has
/// a next basket even if one basket takes longer than others.
pub const RECOMPRESSED_AT_ONCE_BYTES: u64 = 64 << 20;
/// Number of decompressed bytes in a group of baskets whose largest baskets are compressed first, so that no thread
/// waits long for another at the end of an input.
pub const RECOMPRESSED_TOGETHER_BYTES: u64 = 16 << 20;
/// Maximum size of a bundle of baskets: the memory limit of the merge divided by this. One bundle is read while another
/// is written, and the bytes of each bundle briefly exist twice.
pub const BUNDLE_MEMORY_DIVISOR: u64 = 8;
/// Maximum number of files prefetched before the first file shows how much memory each takes.
pub const UNKNOWN_FILES_PREFETCHED: usize = 64;
/// Maximum number of local inputs that a merge opens concurrently: one is copied, one is decoded, and two wait for a
/// disk.
pub const NEAR_INPUTS_OPENED: usize = 4;
/// Maximum number of local inputs that a merge opens in advance. More would not be ready sooner, and would evict useful
/// data from the CPU cache.
pub const NEAR_INPUTS_AHEAD: usize = 4;
/// Maximum number of remote inputs that a merge opens concurrently: each request waits for a round trip.
pub const FAR_INPUTS_AHEAD: usize = 16;
/// Default timeout for decoding one basket, in seconds: a gigabyte takes a minute in the slowest codec.
const DECODER_STUCK_AFTER_S: f64 = 600.0;
/// Maximum time for which a closed stream waits for its threads before it abandons them.
pub(crate) const CLOSE_PATIENCE: std::time::Duration = std::time::Duration::from_secs(3);
/// Maximum time that one poll for the next chunk adds to the waiting time: a poll takes longer only if the process was
/// suspended.
pub(crate) const AWAKE_MAX: std::time::Duration = std::time::Duration::from_millis(500);

/// Returns the timeout for decoding one basket. For very slow machines, an environment variable overrides the default.
/// If its value is invalid, returns an error of the kind `Option`.
pub(crate) fn decoder_stuck_after() -> branchline_storage::Result<std::time::Duration> {
    let set = branchline_storage::number_in_environment(branchline_trace::environment::DECODER_STUCK, 0.001..=1e6)?;
    Ok(std::time::Duration::from_secs_f64(set.unwrap_or(DECODER_STUCK_AFTER_S)))
}
/// Maximum number of bytes of RNTuple pages written under one key: the size field of a key has 31 bits.
pub const BLOB_BYTES: usize = 1 << 29;
/// Approximate size of a page list that is written: one request can read the list, and it is small compared with its
/// pages.
pub const PAGE_LIST_BYTES: usize = 1 << 20;
/// Maximum memory for pages of zeros, which stand for elements from before a column was added, as a multiple of the
/// file size.
pub const ZEROS_FACTOR_MAX: u64 = 1024;
/// Maximum size of an RNTuple page before compression, as in ROOT.
pub const PAGE_BYTES: u64 = 1 << 20;
/// Number of bytes of full pages that are compressed at a time, on all cores.
pub const PAGES_AT_ONCE_BYTES: usize = 16 << 20;
/// Maximum total size of pages that are not full. Above this size, the largest pages are closed.
pub const OPEN_PAGES_BYTES: usize = 256 << 20;
/// Approximate number of bytes of values appended at a time; a cluster may end between two appends.
pub const FILLED_AT_ONCE_BYTES: u64 = 4 << 20;
/// Default approximate compressed size of an RNTuple cluster that is written: large enough for reads of a few MB from
/// each of many columns, and small compared with the memory for reading a chunk.
pub const NTUPLE_CLUSTER_BYTES: u64 = 64 << 20;
/// Maximum space in a file that superseded versions of growing trees may waste: this many bytes or the space in use,
/// whichever is smaller, plus the space in use divided by `SUPERSEDED_DIVISOR`.
pub const SUPERSEDED_BYTES: u64 = 1 << 20;
/// Divisor for the part of the used space that superseded versions of growing trees may waste, see `SUPERSEDED_BYTES`.
pub const SUPERSEDED_DIVISOR: u64 = 32;
/// Minimum size of an open basket that is closed when its tree is published. The open cluster of an RNTuple is closed
/// once it has this many bytes per column. Smaller baskets and clusters are written too, but are written again when
/// more entries arrive.
pub const PUBLISHED_BASKET_BYTES: usize = 64 << 10;
/// Maximum number of bytes that two adjacent parts of a file may both read: a part's bytes divided by this.
pub const PART_CUT_DIVISOR: u64 = 8;
