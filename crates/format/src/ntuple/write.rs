//! Encoding of RNTuples into bytes, without I/O.
//!
//! ```
//! use branchline_format::ntuple::schema::Schema;
//! use branchline_format::ntuple::write::schema::write_header;
//!
//! assert!(write_header("events", "", &Schema::default()).is_ok());
//! ```

pub mod anchor;
pub mod elements;
pub mod envelope;
pub mod page;
pub mod page_list;
pub mod schema;
pub mod walk;
mod wire;
