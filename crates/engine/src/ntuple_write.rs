//! RNTuples are written: merged from others, page by page or value by value, and made from columns.

mod copy;
mod input;
mod merge;
mod parallel;
mod schema;
mod sink;
mod zeros;

pub(crate) use merge::{NtupleOptions, NtuplePlan};
