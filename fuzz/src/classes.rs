//! Streamer infos of classes that the bytes of an input describe in short, and a branch that holds objects of them.

use std::collections::HashSet;
use std::sync::Arc;

use branchline_format::classes::streamer::{ClassInfo, ClassInfos, Element};
use branchline_format::tree::{BranchInfo, ElementBranch, TBranch, TLeaf};

use crate::input::Input;

/// Says that the name of a class follows (kNewClassTag).
const NEW_CLASS_TAG: u32 = 0xffff_ffff;
/// Classes of which streamer infos consist.
const ELEMENT_CLASSES: [&str; 6] = [
    "TStreamerElement",
    "TStreamerBase",
    "TStreamerBasicPointer",
    "TStreamerLoop",
    "TStreamerSTL",
    "TStreamerSTLstring",
];
/// Classes of objects that a merge adds up.
pub const SUM_CLASSES: [&str; 10] = [
    "TH1D",
    "TH2F",
    "TH3I",
    "TProfile",
    "TProfile2D",
    "TGraphErrors",
    "TEfficiency",
    "TParameter<double>",
    "TList",
    "THnSparseT<TArrayD>",
];
/// Extents that a streamer element has room for.
const EXTENTS_COUNT: usize = 5;

/// The streamed list of the streamer infos that an input describes; nothing in it has a byte count.
pub fn read_infos(input: &mut Input<'_>) -> Vec<u8> {
    let count = input.byte();
    let mut list = Vec::new();
    put_short(&mut list, 4); // TList's version, behind which its TObject and its name follow
    put_tobject(&mut list);
    put_text(&mut list, &[]);
    list.extend(i32::from(count).to_be_bytes());
    for _ in 0..count {
        put_class_tag(&mut list, "TStreamerInfo");
        read_info(input, &mut list);
        put_text(&mut list, &[]); // the option of a link
    }
    list
}

fn read_info(input: &mut Input<'_>, list: &mut Vec<u8>) {
    put_short(list, 9);
    put_tnamed(list, input.text(), &[]);
    let (checksum, version) = (u32::from(input.byte()), i32::from(input.short() as i16));
    list.extend(checksum.to_be_bytes());
    list.extend(version.to_be_bytes());
    put_class_tag(list, "TObjArray");
    put_short(list, 3);
    put_tobject(list);
    put_text(list, &[]);
    let count = input.byte();
    list.extend(i32::from(count).to_be_bytes());
    list.extend(0i32.to_be_bytes());
    for _ in 0..count {
        read_element(input, list);
    }
}

fn read_element(input: &mut Input<'_>, list: &mut Vec<u8>) {
    let class_name = ELEMENT_CLASSES[usize::from(input.byte()) % ELEMENT_CLASSES.len()];
    put_class_tag(list, class_name);
    // One version for each base class that is streamed within the other.
    let versions_count = match class_name {
        "TStreamerElement" => 1,
        "TStreamerSTLstring" => 3,
        _ => 2,
    };
    (0..versions_count).for_each(|_| put_short(list, 4));
    put_tnamed(list, input.text(), input.text());
    list.extend(u32::from(input.short()).to_be_bytes()); // fType
    list.extend(0u32.to_be_bytes()); // fSize
    list.extend((input.long() & i32::MAX as u32).to_be_bytes()); // fArrayLength: less than 0 is refused
    let extents_count = input.byte();
    list.extend(u32::from(extents_count).to_be_bytes());
    for extent in 0..EXTENTS_COUNT {
        let extent = if extent < usize::from(extents_count) { input.long() } else { 0 };
        list.extend(extent.to_be_bytes());
    }
    put_text(list, input.text());
    match class_name {
        "TStreamerBase" => list.extend(u32::from(input.short()).to_be_bytes()),
        "TStreamerBasicPointer" | "TStreamerLoop" => {
            list.extend(0u32.to_be_bytes());
            put_text(list, input.text());
        }
        "TStreamerSTL" | "TStreamerSTLstring" => {
            list.extend(u32::from(input.short()).to_be_bytes());
            list.extend(u32::from(input.short()).to_be_bytes());
        }
        _ => {}
    }
}

/// Classes of branches: leaf lists, and objects in two ways.
const BRANCH_CLASSES: [&str; 3] = ["TBranchElement", "TBranchObject", "TBranch"];

fn string(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The branch that an input describes, whose index is 0, and which may be counted by another.
pub fn read_branch(input: &mut Input<'_>) -> TBranch {
    let class_name = BRANCH_CLASSES[usize::from(input.byte()) % BRANCH_CLASSES.len()];
    let name = string(input.text());
    let leaves_count = input.byte();
    let leaves = (0..leaves_count).map(|_| read_leaf(input)).collect();
    let element = (class_name != "TBranch").then(|| read_branch_element(input));
    let info = BranchInfo {
        object_id: 0,
        path: name.clone(),
        name,
        title: String::new(),
        class_name: class_name.to_string(),
        parent: None,
        has_children: false,
        leaves,
        compress: 0,
        file_name: String::new(),
        element,
    };
    TBranch { info: Arc::new(info), entries_count: 1, plain_bytes: 1, compressed_bytes: 1, baskets: Vec::new() }
}

fn read_leaf(input: &mut Input<'_>) -> TLeaf {
    TLeaf {
        name: string(input.text()),
        title: string(input.text()),
        class_name: string(input.text()),
        length: i64::from(input.long()),
        is_unsigned: input.byte() % 2 == 1,
        count_name: None,
        count_branch: None,
    }
}

fn read_branch_element(input: &mut Input<'_>) -> ElementBranch {
    ElementBranch {
        class_name: string(input.text()),
        clones_name: string(input.text()),
        checksum: u32::from(input.byte()),
        class_version: i32::from(input.short() as i16),
        id: i32::from(input.byte() as i8),
        branch_type: i32::from(input.byte() as i8),
        streamer_type: i32::from(input.short() as i16),
        count: Some(0),
        count2: Some(0),
    }
}

fn put_short(list: &mut Vec<u8>, number: i16) {
    list.extend(number.to_be_bytes());
}

fn put_class_tag(list: &mut Vec<u8>, class_name: &str) {
    list.extend(NEW_CLASS_TAG.to_be_bytes());
    list.extend_from_slice(class_name.as_bytes());
    list.push(0);
}

fn put_tobject(list: &mut Vec<u8>) {
    put_short(list, 1);
    list.extend([0; 8]);
}

fn put_tnamed(list: &mut Vec<u8>, name: &[u8], title: &[u8]) {
    put_short(list, 1);
    put_tobject(list);
    put_text(list, name);
    put_text(list, title);
}

/// A TString of fewer than 255 letters.
fn put_text(list: &mut Vec<u8>, text: &[u8]) {
    let text = &text[..text.len().min(254)];
    list.push(text.len() as u8);
    list.extend_from_slice(text);
}

/// Describes the classes that objects of these types are made of, as [`read_infos`] reads them.
pub fn put_infos(seed: &mut Vec<u8>, infos: &ClassInfos, type_names: &[&str]) {
    let mut seen: HashSet<String> = HashSet::new();
    let mut waiting: Vec<String> = type_names.iter().map(|name| (*name).to_string()).collect();
    let mut found: Vec<&ClassInfo> = Vec::new();
    while let Some(name) = waiting.pop() {
        // A container's name has those of what it holds in it.
        let parts = name.split(['<', '>', ',', '*', ' ']).map(str::to_string);
        for part in std::iter::once(name.clone()).chain(parts).filter(|part| !part.is_empty()) {
            if !seen.insert(part.clone()) {
                continue;
            }
            for info in infos.all(&part) {
                found.push(info);
                let bases = info.elements.iter().filter(|element| element.type_code == 0);
                waiting.extend(bases.map(|element| element.name.clone()));
                waiting.extend(info.elements.iter().map(|element| element.type_name.clone()));
            }
        }
    }
    found.truncate(usize::from(u8::MAX));
    seed.push(found.len() as u8);
    found.into_iter().for_each(|info| put_info(seed, info));
}

fn put_info(seed: &mut Vec<u8>, info: &ClassInfo) {
    put_text(seed, info.name.as_bytes());
    seed.push(info.checksum as u8);
    seed.extend((info.version as u16).to_le_bytes());
    let elements = &info.elements[..info.elements.len().min(usize::from(u8::MAX))];
    seed.push(elements.len() as u8);
    elements.iter().for_each(|element| put_element(seed, element));
}

fn put_element(seed: &mut Vec<u8>, element: &Element) {
    let class_name = match element.type_code {
        0 => "TStreamerBase",
        41..=59 => "TStreamerBasicPointer",
        500 | 501 if !element.count_name.is_empty() => "TStreamerLoop",
        _ if element.stl_type != 0 => "TStreamerSTL",
        _ => "TStreamerElement",
    };
    seed.push(ELEMENT_CLASSES.iter().position(|one| *one == class_name).unwrap_or(0) as u8);
    put_text(seed, element.name.as_bytes());
    put_text(seed, element.title.as_bytes());
    seed.extend((element.type_code as u16).to_le_bytes());
    seed.extend((element.array_length as u32).to_le_bytes());
    let extents = &element.dimensions[..element.dimensions.len().min(EXTENTS_COUNT)];
    seed.push(extents.len() as u8);
    extents.iter().for_each(|extent| seed.extend((*extent as u32).to_le_bytes()));
    put_text(seed, element.type_name.as_bytes());
    match class_name {
        "TStreamerBase" => seed.extend((element.base_version as u16).to_le_bytes()),
        "TStreamerBasicPointer" | "TStreamerLoop" => put_text(seed, element.count_name.as_bytes()),
        "TStreamerSTL" => {
            seed.extend((element.stl_type as u16).to_le_bytes());
            seed.extend((element.content_type as u16).to_le_bytes());
        }
        _ => {}
    }
}

/// Describes a branch as [`read_branch`] reads it.
pub fn put_branch(seed: &mut Vec<u8>, branch: &TBranch) {
    seed.push(BRANCH_CLASSES.iter().position(|one| *one == branch.class_name).unwrap_or(0) as u8);
    put_text(seed, branch.name.as_bytes());
    seed.push(branch.leaves.len() as u8);
    for leaf in &branch.leaves {
        [&leaf.name, &leaf.title, &leaf.class_name].into_iter().for_each(|text| put_text(seed, text.as_bytes()));
        seed.extend((leaf.length as u32).to_le_bytes());
        seed.push(u8::from(leaf.is_unsigned));
    }
    let Some(element) = &branch.element else { return };
    put_text(seed, element.class_name.as_bytes());
    put_text(seed, element.clones_name.as_bytes());
    seed.push(element.checksum as u8);
    seed.extend((element.class_version as u16).to_le_bytes());
    seed.extend([element.id as u8, element.branch_type as u8]);
    seed.extend((element.streamer_type as u16).to_le_bytes());
}
