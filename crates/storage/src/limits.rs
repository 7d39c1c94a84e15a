//! Every limit of this room, with its reason.

/// Gap up to which two ranges of a local file are read as one. A read call on cached bytes costs about 0.5 us before
/// the first byte, as much as copying 10 to 16 KiB; on a disk the kernel reads ahead further than this anyhow.
pub const LOCAL_GAP_BYTES: u64 = 16 * 1024;

/// Ranges are joined up to this size. By then the cost of a call has vanished against that of its bytes, and
/// larger buffers only delay the first basket and hold more memory.
pub const MAX_JOINED_BYTES: u64 = 8 * 1024 * 1024;
