//! Flag bits in streamed bytes (TBufferFile, TObject), and the versions with which Branchline writes ROOT's own
//! classes.
//!
//! ```
//! use branchline_format::marks::{byte_count, BYTE_COUNT_MASK};
//!
//! assert_eq!(byte_count(10), Some(BYTE_COUNT_MASK | 10));
//! assert_eq!(byte_count(1 << 30), None);
//! ```

/// Bit that is set in the byte count before a streamed object (TBufferFile's kByteCountMask).
pub const BYTE_COUNT_MASK: u32 = 0x4000_0000;
/// Bit that is set in the first byte of a byte count, and clear if a version without byte count comes instead.
pub(crate) const BYTE_COUNT_MARK: u8 = (BYTE_COUNT_MASK >> 24) as u8;
/// Bit that is set if the first two bytes of a TObject belong to a byte count and not to a version (kByteCountVMask).
pub(crate) const VERSION_COUNT_MASK: i16 = 0x4000;
/// Bit that is set in the version of a collection whose elements are stored member by member (kStreamedMemberWise).
pub(crate) const MEMBERWISE_MASK: i16 = 0x4000;
/// Tag of an object whose class name follows (kNewClassTag).
pub(crate) const NEW_CLASS_TAG: u32 = 0xffff_ffff;
/// Bit that is set in the tag of an object whose class name occurred earlier (kClassMask).
pub(crate) const CLASS_MASK: u32 = 0x8000_0000;
/// Value added to buffer offsets that are used as references (kMapOffset).
pub(crate) const MAP_OFFSET: u64 = 2;
/// Bit of TObject::fBits that means that a two-byte process ID follows (kIsReferenced).
pub(crate) const IS_REFERENCED: u32 = 1 << 4;
/// Size of a TObject that no TRef references: version, unique ID and bits.
pub(crate) const TOBJECT_BYTES: usize = 10;

/// Maximum size of a branch entry in bytes, the limit of TBuffer.
pub(crate) const ENTRY_BYTES_MAX: usize = 1 << 30;

/// Value added to the version of a TKey or TDirectory with 64-bit file offsets.
pub(crate) const BIG_VERSION: i16 = 1000;
/// Value added to the version of a file whose header has 64-bit offsets (TFile::WriteHeader).
pub(crate) const BIG_FILE_VERSION: i32 = 1_000_000;
/// Class version of a TKey with 32-bit offsets.
pub(crate) const KEY_VERSION: i16 = 4;
/// Class version of TBasket.
pub(crate) const BASKET_VERSION: i16 = 3;
/// Class version of standard library containers. Equal to the version of TStreamerInfo in ROOT 6 before 6.40.
pub(crate) const CONTAINER_VERSION: u16 = 9;

/// The byte count of an object of `bytes` bytes, with [`BYTE_COUNT_MASK`] set; None above ROOT's size limit.
pub fn byte_count(bytes: usize) -> Option<u32> {
    let count = u32::try_from(bytes).ok().filter(|count| *count < BYTE_COUNT_MASK)?;
    Some(BYTE_COUNT_MASK | count)
}
