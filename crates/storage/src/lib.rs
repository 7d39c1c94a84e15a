//! Byte ranges from anywhere. This crate does not know what the bytes mean.
//!
//! A [`Store`] is one opened file at one place. [`open`] finds the right one for a path or URL, stores wrapped
//! around a store add to it ([`Counted`]), and [`coalesce`] joins near ranges before they are read.

// One file has code that is not safe: reads through io_uring.
#![deny(unsafe_code)]

mod abandoned_calls;
mod access;
mod addresses;
mod bridge;
mod cache;
mod checksum;
mod choice;
mod coalesce;
mod counted;
mod error;
mod fault;
mod http;
pub mod limits;
mod links;
mod list_folder;
mod listing;
mod local;
mod memory;
mod mounted;
mod open;
mod progress;
mod range;
mod read_ahead;
mod replicas;
mod retry;
mod s3;
mod secrets;
mod settings;
mod small_file;
mod stage;
mod store;
mod tls;
mod token;
mod trouble;
mod troubles;
mod url;
mod xrootd;

pub use access::{Access, AccessMode};
pub use bridge::{register_bridge, Library, LibraryFailure, LibraryFile, RangesRead, WantedRange};
pub use cache::Cached;
pub use choice::{is_worth_a_round_trip, Choice};
pub use coalesce::{coalesce, Placement, Plan};
pub use counted::{Counted, Remarks};
pub use error::{Result, StorageError, StorageErrorKind};
pub use http::HttpFile;
pub use links::{link_to, links, Link, StorageLink};
pub use list_folder::{list_folder, listing_wait};
pub use listing::{Listing, ListingForm};
pub use local::{was_written_to, LocalFile, LocalMode};
pub use memory::Memory;
pub use open::{link_expected, local_paths, open, size_of};
pub use progress::count_progress_in;
pub use range::{ByteRange, RangeRead};
pub use read_ahead::ReadAhead;
pub use replicas::{prefer_replicas, ReplicaRank};
pub use secrets::without_secrets;
pub use settings::{longest_wait, number_in_environment};
pub use stage::Staged;
pub use store::{Around, ReadEffort, ReplicaRead, Store};
pub use trouble::{FaultKind, FaultPlan, Faulty, Proxy, ProxyCounts, Throttle, Throttled};
pub use troubles::{note_wrong_bytes, take_troubles, ElementTroubles, Troubles};
pub use xrootd::XrootdFile;
