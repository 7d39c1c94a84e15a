//! Branches and leaves in versions that were streamed by hand, which files describe wrongly or not at all.

use crate::class_info::{ClassInfo, Element};
use crate::root_classes;
use crate::type_code as code;

/// Of leaves and the like, whose streamers began alike in all versions, the newest one that is known: it serves for
/// versions that nobody describes, as only what stands at the beginning is wanted.
pub fn alike_in_all_versions(name: &str) -> Option<&'static ClassInfo> {
    let is_alike = name.starts_with("TLeaf") || matches!(name, "TNamed" | "TNtuple" | "TNtupleD");
    root_classes::newest(name).filter(|_| is_alike)
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
