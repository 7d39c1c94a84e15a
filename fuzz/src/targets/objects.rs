//! A basket of objects: the first bytes describe classes and a branch that holds objects of them.

use std::sync::Arc;

use crate::input::Input;
use crate::memory::bounded;
use crate::{baskets, classes};
use branchline_format::classes::streamer::ClassInfos;
use branchline_format::objects::Classes;
use branchline_format::tree::kind_of;

/// Programs of classes take memory for up to a hundred thousand members of classes within classes.
const PROGRAM_BYTES: usize = 64 << 20;

pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let infos = ClassInfos::read(&classes::read_infos(&mut input), 0).expect("streamer infos that were made right");
    let branch = classes::read_branch(&mut input);
    let classes = Arc::new(Classes::new(Arc::new(infos)));
    let kind = bounded(PROGRAM_BYTES, 1, || kind_of(&branch, &classes));
    if let Some(layout) = kind.layout() {
        baskets::check(layout, &mut input, bytes.len());
    }
}
