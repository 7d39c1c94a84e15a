//! Every limit of the engine, with its reason.

/// Files up to this size are read whole when they are opened: one request, whatever the number of branches. Eight MiB
/// are read in a few milliseconds from any storage, less than a second round trip to a far one takes.
pub const WHOLE_FILE_BYTES: u64 = 8 << 20;
/// Read from the start of a larger file: the header and the top directory.
pub const HEAD_BYTES: u64 = 16 << 10;
/// Read from its end: ROOT writes trees, streamer infos and keys last.
pub const TAIL_BYTES: u64 = 1 << 20;
/// Metadata that is asked for piece by piece comes in pieces of at least this size.
pub const METADATA_PIECE_BYTES: u64 = 64 << 10;
/// A file whose metadata takes more pieces than this lies about itself.
pub const METADATA_PIECES_MAX: usize = 4096;
/// Directories that are read in one request: of 20 000 they would else be a request of any size.
pub const METADATA_RANGES_MAX: usize = 4096;
/// Names that an error message shows of many.
pub const NAMES_SHOWN: usize = 10;
/// Sets of streamer infos that are kept: the files of a data set all carry the same one.
pub const CLASS_INFOS_KEPT: usize = 16;
/// Work is handed to the decoders in bundles of about so many stored bytes: enough to make the hand-over free.
pub const BUNDLE_BYTES: usize = 128 << 10;
/// Chunks that may be fetched and decoded ahead of the one in use, beyond one for each decoder.
pub const CHUNKS_AHEAD: usize = 2;
/// A chunk may take this part of the memory limit, so that some are in use while others are made.
pub const CHUNK_MEMORY_SHARE: u64 = 4;
/// Output buffers that are kept for the next chunk take at most this part of the memory limit.
pub const POOL_MEMORY_SHARE: u64 = 8;
/// Buffers smaller than this are not worth keeping.
pub const POOLED_BYTES_MIN: usize = 4 << 10;
/// A chunk of a tree without a known size per entry has at least so many entries.
pub const CHUNK_ENTRIES_MIN: u64 = 1;
/// Free buffers for stored bytes that are kept: those of some small files, or of a few joined reads.
pub const READ_BUFFERS_BYTES: usize = 32 << 20;
