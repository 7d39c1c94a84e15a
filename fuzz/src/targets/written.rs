//! The record of a TTree that is made from nothing, as an input describes it: it is read back as it was described.

use crate::input::Input;
use crate::memory::bounded;
use branchline_format::classes::streamer::ClassInfos;
use branchline_format::numbers::number::Number;
use branchline_format::tree::read_tree;
use branchline_format::write::object::classes::tree_infos;
use branchline_format::write::tree::tree_record::{BranchKind, NewBranch, NewTree, WrittenBasket};
use branchline_format::write::{Changes, Recording};

const FACTOR: usize = 16384;
const LEAVES: [Number; 6] = [Number::Bool, Number::I8, Number::U16, Number::I64, Number::F32, Number::F64];

pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let key_size = u64::from(input.short());
    let tree = described(&mut input);
    bounded(bytes.len() + 64, FACTOR, || check(&tree, key_size));
}

fn described(input: &mut Input<'_>) -> NewTree {
    let mut entries_count = 0;
    let name = text(input);
    let title = text(input);
    let cluster_entries = u64::from(input.long());
    let count = input.byte() % 16;
    let mut branches: Vec<NewBranch> = (0..count).map(|number| branch(input, number)).collect();
    for branch in &mut branches {
        let last = branch.baskets.last().map_or(0, |basket| basket.first_entry + 1);
        entries_count = last.max(entries_count);
    }
    NewTree { name, title, entries_count, cluster_entries, branches }
}

fn text(input: &mut Input<'_>) -> String {
    String::from_utf8_lossy(input.text()).into_owned()
}

fn branch(input: &mut Input<'_>, number: u8) -> NewBranch {
    let leaf = LEAVES[usize::from(input.byte()) % LEAVES.len()];
    let kind = match input.byte() % 5 {
        0 => {
            let dimensions = (0..input.byte() % 4).map(|_| usize::from(input.byte()).max(1)).collect();
            BranchKind::Numbers(leaf, dimensions)
        }
        1 => BranchKind::Text,
        2 => BranchKind::List(leaf),
        3 => BranchKind::Lists(leaf),
        _ => BranchKind::Texts,
    };
    let (mut first_entry, mut seek) = (0, 100);
    let basket = |_| {
        let written = WrittenBasket { size: u64::from(input.short()).max(80), first_entry, seek };
        first_entry += u64::from(input.byte()) + 1;
        seek += u64::from(input.long()) + written.size;
        written
    };
    let baskets = (0..number % 8).map(basket).collect();
    NewBranch {
        name: format!("b{number}"),
        title: None,
        kind,
        compress: 505,
        baskets,
        plain_bytes: 5000,
        stored_bytes: 1900,
        basket_size: 32_000,
        count_max: 0,
    }
}

fn check(tree: &NewTree, key_size: u64) {
    let Ok(plain) = tree.record(key_size) else { return };
    let infos = ClassInfos::read(&tree_infos(64).expect("fixed classes"), 64).expect("what was written is read");
    let read = read_tree(&plain, key_size, "TTree", &infos).expect("what was written is read");
    assert_eq!((&read.name, read.entries_count), (&tree.name, tree.entries_count));
    assert_eq!(read.branches.len(), tree.branches.len());
    for (branch, made) in read.branches.iter().zip(&tree.branches) {
        let places: Vec<u64> = made.baskets.iter().map(|basket| basket.first_entry).collect();
        let found: Vec<u64> = branch.baskets.iter().map(|basket| basket.entry_start).collect();
        assert_eq!((&branch.path, found), (&made.name, places));
    }
    let recording = Recording::of_tree(&plain, key_size, "TTree", &infos).expect("what was written is taken apart");
    let again = recording.emit(key_size, &Changes::new()).expect("what was taken apart is put together");
    assert_eq!(again, plain, "and is the same");
}
