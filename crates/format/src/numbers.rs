//! Numbers: their types, ranges, codes and storage.

pub(crate) mod leaf_class;
pub(crate) mod member_kind;
pub mod number;
pub mod range;
pub mod scalar;
pub(crate) mod type_code;
