//! Records of trees and their baskets.
//!
//! ```
//! use branchline_format::numbers::number::Number;
//! use branchline_format::write::tree::tree_record::BranchKind;
//!
//! assert!(BranchKind::Numbers(Number::F64, vec![3]).is_fixed());
//! assert!(!BranchKind::List(Number::F64).is_fixed());
//! ```

pub(crate) mod basket;
pub(crate) mod basket_record;
pub(crate) mod bounds;
pub mod continued;
pub(crate) mod embedded;
pub(crate) mod new_basket;
pub(crate) mod slim;
pub mod tree_record;
pub(crate) mod tree_template;
