//! Class descriptions: streamer infos of a file, and the built-in descriptions of ROOT's classes.
//!
//! ```
//! use branchline_format::classes::streamer::ClassInfos;
//!
//! let infos = ClassInfos::default();
//! // ROOT's own classes are built in, so the file does not need to describe them.
//! assert!(!infos.describes("TNamed"));
//! ```

pub mod buffer;
pub mod class_info;
pub(crate) mod cpp_type;
pub(crate) mod root_classes;
pub mod streamer;
