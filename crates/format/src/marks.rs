//! Marks that ROOT sets in streamed bytes (TBufferFile, TObject), and the versions of its own classes as they are
//! written here.

/// Set in the byte count in front of a streamed object (TBufferFile's kByteCountMask).
pub const BYTE_COUNT_MASK: u32 = 0x4000_0000;
/// In the first byte of a version: it belongs to a byte count.
pub(crate) const BYTE_COUNT_MARK: u8 = (BYTE_COUNT_MASK >> 24) as u8;
/// In the version of a TObject: it is the first half of a byte count (kByteCountVMask).
pub(crate) const VERSION_COUNT_MASK: i16 = 0x4000;
/// In the version of a collection: its elements are stored member by member (kStreamedMemberWise).
pub(crate) const MEMBERWISE_MASK: i16 = 0x4000;
/// A class name follows (kNewClassTag).
pub(crate) const NEW_CLASS_TAG: u32 = 0xffff_ffff;
/// The tag refers to a class that was named before (kClassMask).
pub(crate) const CLASS_MASK: u32 = 0x8000_0000;
/// Added to offsets that are used as references (kMapOffset).
pub(crate) const MAP_OFFSET: u64 = 2;
/// Bit of TObject::fBits: two bytes of a process id follow (kIsReferenced).
pub(crate) const IS_REFERENCED: u32 = 1 << 4;
/// Bytes of a TObject that is not referenced: version, unique id, bits.
pub(crate) const TOBJECT_BYTES: usize = 10;

/// Largest entry of a branch: a TBuffer holds no more.
pub(crate) const ENTRY_BYTES_MAX: usize = 1 << 30;

/// Added to the version of a key or directory whose places in the file have 64 bits.
pub(crate) const BIG_VERSION: i16 = 1000;
/// Added to the version of a file whose places have 64 bits.
pub(crate) const BIG_FILE_VERSION: i32 = 1_000_000;
/// TKey, with places of 32 bits.
pub(crate) const KEY_VERSION: i16 = 4;
/// TBasket.
pub(crate) const BASKET_VERSION: i16 = 3;
/// Containers of the standard library have the version of TStreamerInfo; this is that of ROOT 6 before 6.40.
pub(crate) const CONTAINER_VERSION: u16 = 9;

/// The byte count of an object with its mark; None if it has more bytes than ROOT can count.
pub fn byte_count(bytes: usize) -> Option<u32> {
    let count = u32::try_from(bytes).ok().filter(|count| *count < BYTE_COUNT_MASK)?;
    Some(BYTE_COUNT_MASK | count)
}
