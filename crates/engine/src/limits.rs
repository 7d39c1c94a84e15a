//! Every limit of the engine, with its reason.

use branchline_slab::limits::POOLED_BYTES_MIN;
use branchline_storage::limits::MAX_JOINED_BYTES;

/// Files up to this size are read whole when they are opened: one request, whatever the number of branches. Eight MiB
/// are read in a few milliseconds from any storage, less than a second round trip to a far one takes.
pub const WHOLE_FILE_BYTES: u64 = 8 << 20;
/// The same on disks of this machine, where a request takes microseconds: most often a few branches are wanted.
pub const NEAR_WHOLE_BYTES: u64 = 256 << 10;
/// After so many ranges of metadata the rest of a small near file is read at once. One with one tree has four to six.
pub const NEAR_METADATA_RANGES: usize = 16;
/// Of larger ones, up to the size above, about this part is read first, from the end: metadata grow with the file.
pub const NEAR_TAIL_SHARE: u64 = 32;
/// Read from the start of a larger file: the header and the top directory.
pub const HEAD_BYTES: u64 = 16 << 10;
/// Read from its end: ROOT writes trees, streamer infos and keys last.
pub const TAIL_BYTES: u64 = 1 << 20;
/// The least that is read from the end of a small file: a shorter range would not make the request faster.
pub const TAIL_MIN_BYTES: u64 = 64 << 10;
/// From this round trip on connections are made for reads that are still to come: it takes two.
pub(crate) const FAR_ROUND_TRIP_MIN: std::time::Duration = std::time::Duration::from_millis(20);
/// Metadata that decoders miss is read in pieces of at least this size.
pub const METADATA_PIECE_BYTES: u64 = 64 << 10;
/// Records of a file that was never closed are looked at in pieces of this size, which hold several small ones.
pub const RECOVERY_PIECE_BYTES: u64 = 16 << 10;
/// The same at a server, where each piece is a round trip: at 30 ms as much as comes in it at 30 MB/s.
pub const FAR_RECOVERY_PIECE_BYTES: u64 = 1 << 20;
/// A file whose metadata takes more pieces than this is damaged.
pub const METADATA_PIECES_MAX: usize = 4096;
/// Directories that are read in one request: a file with 20 000 of them would need one of any size.
pub const METADATA_RANGES_MAX: usize = 4096;
/// Bytes of entries that are made up for branches that lack them, at most: a file may claim any number of entries.
pub const MISSING_ENTRIES_BYTES: u64 = 64 << 20;
/// Bytes of a basket of entries that a branch lacks: ROOT holds one basket of each branch in memory.
pub const FILLED_BASKET_BYTES: usize = 64 << 10;
/// Names that an error message shows of many.
pub const NAMES_SHOWN: usize = 10;
/// Sets of streamer infos that are kept: the files of a data set all carry the same one.
pub const CLASS_INFOS_KEPT: usize = 16;
/// Larger ones, as they are stored, are not kept: those of the largest experiments take 100 kB.
pub const CLASS_INFOS_KEPT_BYTES: usize = 1 << 20;
/// Other files that the baskets of a tree may lie in: each is opened with the tree.
pub const EXTERNAL_FILES_MAX: usize = 1000;
/// Baskets are handed to the decoders in bundles of about this many stored bytes, so that handing over costs little.
pub const BUNDLE_BYTES: usize = 128 << 10;
/// Chunks that may be fetched and decoded ahead of the one in use, beyond one for each decoder.
pub const CHUNKS_AHEAD: usize = 2;
/// A chunk may take this part of what is leased: the loop over them still holds one, the next is made, one or two wait
/// between them, and there is room for what is fetched.
pub const CHUNK_MEMORY_SHARE: u64 = 6;
/// A memory limit of which large baskets leave less than this part for a chunk is too small: every chunk would
/// decompress them again for a few entries.
pub const CHUNK_MEMORY_SHARE_MIN: u64 = 12;
/// Decompressed baskets, and again what is carried from chunk to chunk, may take this part of what is leased; more only
/// where a single basket is larger.
pub const BASKET_MEMORY_SHARE: u64 = 8;
/// Decoders may decompress baskets to this part of what is leased at a time, if so much is free.
pub const SCRATCH_MEMORY_SHARE: u64 = 4;
/// Baskets up to this size are decompressed to memory of the decoder's own: nearly all that ROOT writes.
pub const OWN_SCRATCH_BYTES: u64 = 1 << 20;
/// All decoders' own memory takes at most this part of the memory limit.
pub const OWN_SCRATCH_MEMORY_SHARE: u64 = 16;
/// Bytes of buffers for decompressed baskets that streams leave to the next ones, a few large ones, until the process
/// ends. They come on top of the memory limits of the streams that go on meanwhile.
pub const SPARE_SCRATCH_BYTES: usize = 16 << 20;
/// Buffers of them: looking through them takes less time than touching the pages of a new one.
pub const SPARE_SCRATCH_COUNT: usize = 64;
/// Free buffers for stored bytes take at most this part of the memory limit.
pub const READ_BUFFERS_MEMORY_SHARE: u64 = 16;
/// A file that is read whole takes at most this part of the memory limit.
pub const WHOLE_FILE_MEMORY_SHARE: u64 = 16;
/// What is prefetched takes at most this part of the memory limit.
pub const PREFETCH_MEMORY_SHARE: u64 = 8;
/// Chunks that are prefetched at a time: where each is a few baskets, this many fill any link.
pub const CHUNKS_PREFETCHED_MAX: usize = 64;
/// Entries on which the access `cache` learns which branches are read, as TTreeCache does.
pub const LEARN_ENTRIES: u64 = 100;
/// Output buffers that are kept for the next chunk take at most this part of the memory limit.
pub const POOL_MEMORY_SHARE: u64 = 8;
/// A chunk of a tree without a known size per entry has at least this many entries.
pub const CHUNK_ENTRIES_MIN: u64 = 1;
/// Free buffers for stored bytes that are kept: those of some small files, or of four joined reads, each a little
/// larger than its bytes.
pub const READ_BUFFERS_BYTES: usize = 4 * (MAX_JOINED_BYTES as usize + POOLED_BYTES_MIN);
/// Bundles that wait for a decoder: they wait at most as long as their chunks, which the budget bounds; this only
/// bounds their number.
pub const BUNDLES_WAITING: usize = 1 << 16;
/// Output may be this many times larger than the stored bytes: codecs shrink constant data to less than a thousandth,
/// and values grow when they are decoded. For larger claims memory is allocated only after decompression.
pub const PLAUSIBLE_FACTOR: usize = 4096;
/// A thread that waits for memory checks at least this often whether the stream was closed.
pub const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_millis(100);
/// A merge syncs its output and journals its progress at least this often, also where it has written fewer bytes than
/// its request names.
pub const JOURNAL_PAUSE: std::time::Duration = std::time::Duration::from_secs(10);
/// How often an output is tried to begin while another process that begins looks whether it is a leftover.
pub const OUTPUT_BEGINNINGS_COUNT: u32 = 20;
/// The pause between two tries, see [`OUTPUT_BEGINNINGS_COUNT`].
pub const OUTPUT_BEGINNING_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);
/// Bytes of small baskets of objects that one task decodes to one piece of a column, at least: enough that making the
/// many columns of a class costs little.
pub const PIECE_BYTES: u64 = 256 << 10;
/// The same, at most: buffers that are not larger are kept when they are freed.
pub const PIECE_BYTES_MAX: u64 = 4 << 20;
/// Pieces of a column for each of several decoders, about: all of them have work until the end.
pub const PIECES_PER_DECODER: u64 = 4;
/// Bytes of baskets that are copied at a time: enough for a store to join near ones, and little memory.
pub const COPIED_AT_ONCE_BYTES: u64 = 32 << 20;
/// Memory for the baskets of a tree that a program copies into a file of its own: two bundles, beside its own arrays.
pub const COPIED_TREE_MEMORY_BYTES: u64 = 256 << 20;
/// Bytes that are copied at a time where reads are cheap: what fits into the cache of a core.
pub const COPIED_PIECE_BYTES: u64 = 1 << 20;
/// Small records of an output are written together up to this size.
pub const WRITTEN_TOGETHER_BYTES: usize = 256 << 10;
/// Bytes after which the kernel is asked to write to the disk: some requests of the largest size.
pub const WRITTEN_BACK_AT_ONCE_BYTES: u64 = 16 << 20;
/// Room on the disk is reserved for outputs that are larger. For smaller ones it costs more than it gains.
pub const ROOM_FROM_BYTES: u64 = 16 << 20;
/// Room that is reserved at a time: more than a write takes, and little to give back in the end.
pub const ROOM_AT_ONCE_BYTES: u64 = 128 << 20;
/// Bytes of a new basket before compression, at most, if the request has no other size: a few hundred requests of such
/// a size are as fast as one of all, and ROOT keeps one basket of each branch in memory.
pub const BASKET_BYTES: usize = 1 << 20;
/// Bytes of a new cluster, about, if the request has no other size (TTree's default for fAutoFlush).
pub const CLUSTER_BYTES: u64 = 30_000_000;
/// Stored bytes of entries that are put into new baskets at a time, whatever the clusters: this bounds the memory.
pub const REWRITTEN_AT_ONCE_BYTES: u64 = 64 << 20;
/// Entries that are put into new baskets may take this part of the memory limit before decompression: they become
/// several times larger, and the new baskets wait to be written.
pub const REWRITING_MEMORY_SHARE: u64 = 16;
/// Bytes after decompression of baskets that wait for the compressors or the disk: each thread has a next basket, also
/// when one basket takes longer than others.
pub const RECOMPRESSED_AT_ONCE_BYTES: u64 = 64 << 20;
/// Bytes after decompression among which the largest baskets are compressed first, so that no thread waits long for
/// another at the end of an input.
pub const RECOMPRESSED_TOGETHER_BYTES: u64 = 16 << 20;
/// A bundle of baskets takes at most this part of the memory of a merge: one is read while another is written, and its
/// bytes are there twice for a moment.
pub const BUNDLE_MEMORY_SHARE: u64 = 8;
/// Files that are prefetched before it is known from the first one how much memory each takes.
pub const UNKNOWN_FILES_PREFETCHED: usize = 64;
/// Inputs of a merge that are opened at a time: one is copied, one is decoded, and two wait for a disk.
pub const NEAR_INPUTS_OPENED: usize = 4;
/// Inputs that are open ahead. More would not be ready sooner, and their bytes would leave the processor's cache.
pub const NEAR_INPUTS_AHEAD: usize = 4;
/// Inputs that are opened at a time from servers, where each request waits for a round trip.
pub const FAR_INPUTS_AHEAD: usize = 16;
/// A basket that takes longer to decode than this is stuck: a gigabyte takes a minute in the slowest codec.
const DECODER_STUCK_AFTER_S: f64 = 600.0;
/// The environment variable that sets another time, in seconds, for very slow machines.
const DECODER_STUCK_VARIABLE: &str = "BRANCHLINE_DECODER_STUCK";
/// The time for which a stream that is closed waits for its threads. Then it leaves them behind.
pub(crate) const CLOSE_PATIENCE: std::time::Duration = std::time::Duration::from_secs(3);
/// The most that one look for the next chunk counts as waiting: it takes longer only if the process was stopped.
pub(crate) const AWAKE_MAX: std::time::Duration = std::time::Duration::from_millis(500);

/// The time after which a decoder is stuck. An invalid value of its variable is an error of the kind `Option`.
pub(crate) fn decoder_stuck_after() -> branchline_storage::Result<std::time::Duration> {
    let set = branchline_storage::number_in_environment(DECODER_STUCK_VARIABLE, 0.001..=1e6)?;
    Ok(std::time::Duration::from_secs_f64(set.unwrap_or(DECODER_STUCK_AFTER_S)))
}
/// Pages of an RNTuple that are written behind one key: the size of a key has 31 bits.
pub const BLOB_BYTES: usize = 1 << 29;
/// Bytes of a page list that is written, about: it is read in one request, and small compared with its pages.
pub const PAGE_LIST_BYTES: usize = 1 << 20;
/// The pages of zeros for elements from before a column was added take at most this many times the bytes of the file
/// in memory.
pub const ZEROS_FACTOR_MAX: u64 = 1024;
/// Bytes of a page of an RNTuple before compression, as ROOT writes them at most.
pub const PAGE_BYTES: u64 = 1 << 20;
/// Bytes of full pages that are compressed at a time, on all cores.
pub const PAGES_AT_ONCE_BYTES: usize = 16 << 20;
/// Bytes of pages that are not full, at most; then the largest are closed.
pub const OPEN_PAGES_BYTES: usize = 256 << 20;
/// Bytes of values that are added at a time, about; a cluster may end between.
pub const FILLED_AT_ONCE_BYTES: u64 = 4 << 20;
/// Compressed bytes of a cluster of an RNTuple that is written: some MB of each of many columns, and a part of what
/// reading a chunk may take.
pub const NTUPLE_CLUSTER_BYTES: u64 = 64 << 20;
/// Space that published versions of growing trees may waste in a file: up to what is used, but no more than these bytes
/// and this share of what is used.
pub const SUPERSEDED_BYTES: u64 = 1 << 20;
/// See `SUPERSEDED_BYTES`.
pub const SUPERSEDED_SHARE: u64 = 32;
/// When a tree is published its open baskets end from these bytes on, and its open cluster from these bytes for each
/// column on. What is smaller is written, and written again when more entries come.
pub const PUBLISHED_BASKET_BYTES: usize = 64 << 10;
/// Of the bytes of a part of a file at most this part is read for the next part too.
pub const PART_CUT_SHARE: u64 = 8;
