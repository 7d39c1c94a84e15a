//! The plain bytes of streamer infos behind the size of their key and their length, and of a tree behind the size of
//! its key. The layouts of its branches are computed, and the baskets that came with it are decoded.

use branchline_format::basket::decode::decode;
use branchline_format::basket::Plain;
use std::sync::Arc;

use crate::columns::checked_len;
use crate::input::Input;
use crate::memory::bounded;
use branchline_format::classes::streamer::ClassInfos;
use branchline_format::objects::Classes;
use branchline_format::tree::kind_of;
use branchline_format::tree::{read_tree, Place, TTree};

/// Bytes of memory for a byte of streamer infos and tree.
const FACTOR: usize = 512;

pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let info_key_size = u64::from(input.short());
    let infos = ClassInfos::read(input.part(), info_key_size).unwrap_or_default();
    let key_size = u64::from(input.short());
    if let Ok(tree) = bounded(bytes.len(), FACTOR, || read_tree(input.0, key_size, "TTree", &infos)) {
        check(&tree, &Arc::new(Classes::new(Arc::new(infos))));
    }
}

fn check(tree: &TTree, classes: &Arc<Classes>) {
    for (index, branch) in tree.branches.iter().enumerate() {
        assert!(branch.parent.is_none_or(|parent| parent < index), "a parent comes before its children");
        let in_order = branch.baskets.windows(2).all(|pair| pair[0].entry_stop <= pair[1].entry_start);
        assert!(in_order, "baskets in the order of entries");
        let kind = kind_of(branch, classes);
        let Some(layout) = kind.layout() else { continue };
        for basket in &branch.baskets {
            assert!(basket.entry_start < basket.entry_stop);
            let Place::Embedded(embedded) = &basket.place else { continue };
            if let Ok(column) = decode(layout, &Plain::embedded(embedded), 0..embedded.entries_count, None) {
                assert_eq!(checked_len(&column), embedded.entries_count);
            }
        }
    }
}
