//! The byte layout of a branch's entries in baskets, derived from the branch's leaves and the streamer infos.
//!
//! ```
//! use branchline_format::layout::Layout;
//! use branchline_format::numbers::number::Number;
//! use branchline_format::numbers::scalar::Scalar;
//! use branchline_format::objects::empty_entry;
//!
//! let vector = Layout::Fixed { scalar: Scalar::Plain(Number::F64), dimensions: vec![3] };
//! assert_eq!(empty_entry(&vector), Some(vec![0; 24]));
//! ```

pub(crate) mod branch;
mod empty;
pub(crate) mod form;
pub(crate) mod program;
pub(crate) mod steps;

pub use branch::{Kind, Layout, RunHeader};
