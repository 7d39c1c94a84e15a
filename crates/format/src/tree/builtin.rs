//! Classes that old files do not describe, in the versions that those files have.

use crate::streamer::{ClassInfo, Element};

/// Type codes of TVirtualStreamerInfo::EReadWrite.
mod code {
    pub const BASE: i32 = 0;
    pub const INT: i32 = 3;
    pub const BOOL: i32 = 18;
    pub const OBJECT_POINTER: i32 = 64;
    pub const STRING: i32 = 65;
    pub const TOBJECT: i32 = 66;
}

/// The description of a class that ROOT itself always knew.
pub fn class_info(name: &str) -> Option<ClassInfo> {
    let members: &[(&str, i32)] = match name {
        "TNamed" => &[("TObject", code::TOBJECT), ("fName", code::STRING), ("fTitle", code::STRING)],
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
