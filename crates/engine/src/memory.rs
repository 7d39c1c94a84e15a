//! Memory for reading, which is leased within a limit and reused.
//!
//! ```
//! use branchline_engine::memory::buffers::read_ranges;
//! use branchline_storage::{ByteRange, Memory};
//!
//! let store = Memory::new("memory", b"0123456789".as_slice());
//! let (read, _) = read_ranges(&store, vec![ByteRange::new(2, 3)])?;
//! assert_eq!(&read[0][..], b"234");
//! # Ok::<(), branchline_storage::StorageError>(())
//! ```

pub(crate) mod budget;
pub mod buffers;
pub(crate) mod scratch;
