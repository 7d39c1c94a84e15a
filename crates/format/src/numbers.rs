//! Number types: value ranges, type codes and storage forms.
//!
//! ```
//! use branchline_format::numbers::number::Number;
//!
//! assert_eq!(Number::of_type_name("Float_t"), Number::of_dtype("f4"));
//! assert_eq!(Number::of_type_name("TString"), None);
//! ```

pub(crate) mod leaf_class;
pub(crate) mod member_kind;
pub mod number;
pub mod range;
pub mod scalar;
pub(crate) mod type_code;
