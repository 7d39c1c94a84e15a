//! What the trees and RNTuples of all inputs have together, by their paths. A path is not there if all of them have the
//! same branches or fields.

use std::collections::HashMap;
use std::sync::Arc;

use crate::write::pages::union::NtupleUnion;
use crate::write::products::tree_input::union::TreeUnion;

/// The unions of a merge.
#[derive(Clone, Default)]
pub(crate) struct Unions {
    pub(crate) trees: HashMap<String, Arc<TreeUnion>>,
    pub(crate) ntuples: HashMap<String, Arc<NtupleUnion>>,
}
