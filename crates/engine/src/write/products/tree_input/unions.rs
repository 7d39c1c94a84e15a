//! The unions of the trees and RNTuples of all inputs, keyed by path. If all inputs have the same branches or fields at
//! a path, there is no union for this path.

use std::collections::HashMap;
use std::sync::Arc;

use crate::write::pages::union::NtupleUnion;
use crate::write::products::tree_input::union::TreeUnion;

/// The unions for a merge.
#[derive(Clone, Default)]
pub(crate) struct Unions {
    pub(crate) trees: HashMap<String, Arc<TreeUnion>>,
    pub(crate) ntuples: HashMap<String, Arc<NtupleUnion>>,
}
