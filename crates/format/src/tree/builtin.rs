//! Classes that old files do not describe, in the versions that those files have.

use crate::streamer::{ClassInfo, Element};
use crate::type_code as code;

/// The description of a class that ROOT itself always knew.
pub fn class_info(name: &str) -> Option<ClassInfo> {
    let members: &[(&str, i32)] = match name {
        "TNamed" => &[("TObject", code::TOBJECT), ("fName", code::TSTRING), ("fTitle", code::TSTRING)],
        // TLeaf::Streamer reads its first version and later ones in the same order.
        "TLeaf" => &[
            ("TNamed", code::BASE),
            ("fLen", code::INT),
            ("fLenType", code::INT),
            ("fOffset", code::INT),
            ("fIsRange", code::BOOL),
            ("fIsUnsigned", code::BOOL),
            ("fLeafCount", code::OBJECT_POINTER),
        ],
        // The rest of a leaf (its minimum and maximum) is stepped over by its byte count.
        "TLeafB" | "TLeafS" | "TLeafI" | "TLeafL" | "TLeafF" | "TLeafD" | "TLeafC" | "TLeafO" | "TLeafG"
        | "TLeafF16" | "TLeafD32" => &[("TLeaf", code::BASE)],
        "TLeafElement" => &[("TLeaf", code::BASE), ("fID", code::INT), ("fType", code::INT)],
        "TLeafObject" => &[("TLeaf", code::BASE)],
        "TNtuple" | "TNtupleD" => &[("TTree", code::BASE)],
        _ => return None,
    };
    let elements = members.iter().map(|(name, type_code)| element(name, *type_code)).collect();
    Some(ClassInfo { name: name.to_string(), version: 0, checksum: 0, elements })
}

/// An array of ints.
const INTS: i32 = code::INT + 2 * code::ARRAY_STEP;

/// TBranch from version 6 to 9, as its own streamer wrote it before there were streamer infos, and as Geant4 writes it.
/// Where a file describes these versions, their arrays say less than the streamer does.
pub fn legacy_branch(version: i32) -> ClassInfo {
    const COUNTED: [(&str, i32); 3] =
        [("fBasketBytes", INTS), ("fBasketEntry", INTS), ("fBasketSeek", code::OLD_SEEKS)];
    let mut elements = vec![element("TNamed", code::BASE)];
    elements.extend((version > 7).then(|| element("TAttFill", code::BASE)));
    let numbers =
        ["fCompress", "fBasketSize", "fEntryOffsetLen", "fWriteBasket", "fEntryNumber", "fOffset", "fMaxBaskets"];
    elements.extend(numbers.map(|name| element(name, code::INT)));
    elements.extend((version > 6).then(|| element("fSplitLevel", code::INT)));
    elements.extend(["fEntries", "fTotBytes", "fZipBytes"].map(|name| element(name, code::DOUBLE)));
    let pointers = |name| Element { type_name: "TObjArray".to_string(), ..element(name, code::OBJECT) };
    elements.extend(["fBranches", "fLeaves", "fBaskets"].map(pointers));
    let counted = |(name, code)| Element { count_name: "fMaxBaskets".to_string(), ..element(name, code) };
    elements.extend(COUNTED.map(counted));
    elements.push(element("fFileName", code::TSTRING));
    ClassInfo { name: "TBranch".to_string(), version, checksum: 0, elements }
}

fn element(name: &str, type_code: i32) -> Element {
    Element {
        name: name.to_string(),
        title: String::new(),
        type_code,
        array_length: 0,
        dimensions: Vec::new(),
        type_name: String::new(),
        count_name: String::new(),
        stl_type: 0,
        content_type: 0,
        base_version: 0,
    }
}
