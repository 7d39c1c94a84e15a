//! Decoding of objects: streamer infos are compiled to steps that fill columns. `compile` creates the programs whose
//! types `layout` defines; `run` executes these programs on the bytes of entries.
//!
//! ```
//! use branchline_format::layout::{Layout, RunHeader};
//! use branchline_format::numbers::number::Number;
//! use branchline_format::numbers::scalar::Scalar;
//! use branchline_format::objects::empty_entry;
//!
//! let scalar = Scalar::Plain(Number::F32);
//! let counted = Layout::Run { scalar, dimensions: Vec::new(), header: RunHeader::Count, count: None };
//! assert_eq!(empty_entry(&counted), Some(vec![0; 4]), "no elements");
//! ```

pub(crate) mod compile;
mod run;

pub use crate::layout::program::{Classes, Program};
pub use run::empty_entry::empty_entry;
