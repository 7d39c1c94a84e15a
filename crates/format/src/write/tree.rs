//! Records of trees and their baskets.

pub(crate) mod basket;
pub(crate) mod basket_record;
pub(crate) mod bounds;
pub mod continued;
pub(crate) mod embedded;
pub(crate) mod new_basket;
pub(crate) mod slim;
pub mod tree_record;
pub(crate) mod tree_template;
