//! RNTuple: parsing of its anchor, envelopes and pages into a schema, clusters and columns of values.
//!
//! Section names in this module refer to ROOT's "RNTuple Binary Format Specification", version 1.0.
//!
//! ```
//! use branchline_format::ntuple::number_types::{number_of_type, type_of_number};
//!
//! let number = number_of_type("std::int32_t");
//! assert_eq!(number.map(type_of_number), Some("std::int32_t"));
//! ```

pub mod anchor;
pub mod cluster;
mod column_read;
mod convert;
pub mod encoding;
pub mod envelope;
pub mod footer;
pub mod form;
pub mod names;
pub mod number_types;
pub mod page_list;
mod reader;
pub mod schema;
pub mod write;
