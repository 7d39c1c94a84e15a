//! RNTuple: from the bytes of its anchor, envelopes and pages to a schema, clusters and columns of values.
//!
//! Sections named in these files are those of ROOT's "RNTuple Binary Format Specification", version 1.0.

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
