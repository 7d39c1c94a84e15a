//! Splitting of objects into parts, and reassembly of the parts.
//!
//! ```
//! use branchline_format::classes::streamer::ClassInfos;
//! use branchline_format::write::object::family::adds_up;
//!
//! let infos = ClassInfos::default();
//! assert!(adds_up("TH1D", &infos));
//! assert!(!adds_up("TObjString", &infos));
//! ```

pub(crate) mod axis;
pub mod classes;
pub(crate) mod emitter;
pub mod family;
pub(crate) mod graft;
pub(crate) mod index;
pub(crate) mod infos;
pub(crate) mod number_table;
pub(crate) mod numbers;
pub(crate) mod pieces;
pub(crate) mod record_members;
pub(crate) mod recorder;
pub(crate) mod recording;
pub(crate) mod sparse;
pub(crate) mod token;
