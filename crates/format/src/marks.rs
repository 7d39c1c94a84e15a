//! Marks that ROOT sets in streamed bytes (TBufferFile, TObject), and the versions of its own classes as they are
//! written here.

/// Set in the byte count in front of a streamed object (TBufferFile's kByteCountMask).
pub const BYTE_COUNT_MASK: u32 = 0x4000_0000;
/// Set in the first byte of a version where a byte count is there instead.
pub(crate) const BYTE_COUNT_MARK: u8 = (BYTE_COUNT_MASK >> 24) as u8;
/// Set in the version of a TObject where the first half of a byte count is there instead (kByteCountVMask).
pub(crate) const VERSION_COUNT_MASK: i16 = 0x4000;
/// Set in the version of a collection whose elements are stored member by member (kStreamedMemberWise).
pub(crate) const MEMBERWISE_MASK: i16 = 0x4000;
/// Tag of an object whose class name follows (kNewClassTag).
pub(crate) const NEW_CLASS_TAG: u32 = 0xffff_ffff;
/// Set in the tag of an object whose class was named before (kClassMask).
pub(crate) const CLASS_MASK: u32 = 0x8000_0000;
/// Added to offsets that are used as references (kMapOffset).
pub(crate) const MAP_OFFSET: u64 = 2;
/// Bit of TObject::fBits: two bytes of a process id follow (kIsReferenced).
pub(crate) const IS_REFERENCED: u32 = 1 << 4;
/// Bytes of a TObject that is not referenced: version, unique id, bits.
pub(crate) const TOBJECT_BYTES: usize = 10;

/// Largest entry of a branch: a TBuffer holds no more.
pub(crate) const ENTRY_BYTES_MAX: usize = 1 << 30;

/// Added to the version of a TKey or TDirectory whose offsets in the file have 64 bits.
pub(crate) const BIG_VERSION: i16 = 1000;
/// Added to the version of a file whose header has offsets of 64 bits (TFile::WriteHeader).
pub(crate) const BIG_FILE_VERSION: i32 = 1_000_000;
/// Version of a TKey with offsets of 32 bits.
pub(crate) const KEY_VERSION: i16 = 4;
/// Version of TBasket.
pub(crate) const BASKET_VERSION: i16 = 3;
/// Containers of the standard library have the version of TStreamerInfo; this is that of ROOT 6 before 6.40.
pub(crate) const CONTAINER_VERSION: u16 = 9;

/// The byte count of an object of `bytes` bytes, with [`BYTE_COUNT_MASK`]; None if ROOT cannot count as many.
pub fn byte_count(bytes: usize) -> Option<u32> {
    let count = u32::try_from(bytes).ok().filter(|count| *count < BYTE_COUNT_MASK)?;
    Some(BYTE_COUNT_MASK | count)
}
