//! Byte ranges from anywhere. This crate does not know what the bytes mean.
//!
//! A [`Store`] is one opened file at one place. [`open`] finds the right one for a path or URL, stores wrapped
//! around a store add to it ([`Counted`]), and [`coalesce`] joins near ranges before they are read.

// One file has code that is not safe: reads through io_uring.
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
pub use error::{Result, StorageError, StorageErrorKind};
pub use http::HttpFile;
pub use list_folder::{list_folder, listing_wait};
pub use local::{was_written_to, LocalFile, LocalMode};
pub use open::{link_expected, local_paths, open, set_base_directory, size_and_identity};
pub use progress::count_progress_in;
pub use range::{ByteRange, RangeRead};
pub use replicas::{prefer_replicas, ReplicaRank};
pub use secrets::without_secrets;
pub use servers::failure_counts::{note_wrong_bytes, take_troubles, ElementTroubles, Troubles};
pub use servers::listing::{Listing, ListingForm};
pub use settings::access::{Access, AccessMode};
pub use settings::choice::{is_worth_a_round_trip, Choice};
pub use settings::links::{link_to, links, Link, StorageLink};
pub use settings::{longest_wait, number_in_environment};
pub use store::{Around, ReadEffort, ReplicaRead, Store};
pub use wrappers::counted::{Counted, Remarks};
pub use wrappers::memory::Memory;
pub use wrappers::read_ahead::ReadAhead;
pub use wrappers::stage::Staged;
pub use xrootd::XrootdFile;
