//! Reads byte ranges of files from any storage system. This crate does not interpret the bytes.
//!
//! A [`Store`] is one opened file on one storage system. [`open`] chooses the store for a path or URL, wrappers such as
//! [`Counted`] add features to a store, and [`coalesce`] joins nearby ranges before they are read.
//!
//! ```
//! use branchline_storage::{coalesce, ByteRange};
//!
//! let wanted = [ByteRange::new(0, 10), ByteRange::new(15, 10), ByteRange::new(900, 10)];
//! let plan = coalesce(&wanted, 100, 1000);
//! assert_eq!(plan.ranges, [ByteRange::new(0, 25), ByteRange::new(900, 10)]);
//! assert_eq!(plan.gap_bytes, 5);
//! ```

// Unsafe code is allowed only where modules read through io_uring or into uninitialized memory.
#![deny(unsafe_code)]

mod bridge;
mod cache;
mod coalesce;
mod emulation;
mod error;
mod http;
pub mod limits;
mod list_folder;
mod local;
mod open;
mod progress;
mod range;
mod replicas;
mod room;
mod s3;
mod secrets;
mod servers;
mod settings;
mod store;
mod wrappers;
mod xrootd;

pub use bridge::{register_bridge, Library, LibraryFailure, LibraryFile, RangesRead, WantedRange};
pub use cache::Cached;
pub use coalesce::{coalesce, Placement, Plan};
pub use emulation::{FaultKind, FaultPlan, Faulty, Proxy, ProxyCounts, Throttle, Throttled};
pub use error::{IoCause, Result, StorageError, StorageErrorKind};
pub use http::HttpFile;
pub use list_folder::{list_folder, listing_wait};
pub use local::{was_written_to, LocalFile, LocalMode};
pub use open::{link_expected, local_paths, open, set_base_directory, size_and_identity};
pub use progress::count_progress_in;
pub use range::{ByteRange, RangeRead};
pub use replicas::{avoid, prefer_replicas, silent_elements, ReplicaRank};
pub use secrets::without_secrets;
pub use servers::failure_counts::{note_wrong_bytes, take_troubles, ElementTroubles, Troubles};
pub use servers::listing::{Listing, ListingForm};
pub use settings::access::{Access, AccessMode};
pub use settings::choice::{is_worth_a_round_trip, Choice};
pub use settings::links::{link_to, links, Link, StorageLink};
pub use settings::longest_wait;
pub use settings::waits::{number_in_environment, WaitSetting, Waits};
pub use store::{Around, ReadEffort, ReplicaRead, Store};
pub use wrappers::counted::{Counted, Remarks};
pub use wrappers::memory::Memory;
pub use wrappers::read_ahead::ReadAhead;
pub use wrappers::stage::Staged;
pub use xrootd::XrootdFile;
