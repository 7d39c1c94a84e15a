//! Built-in descriptions of ROOT's own classes, by version, for files that omit them.
//!
//! uproot writes objects of ROOT classes without streamer infos, and old files omit class versions that were built into
//! ROOT. ROOT reads both with the dictionaries of its libraries. Branchline uses four tables instead:
//! - `current.txt`: the streamer infos of ROOT 6.40, written by `python -m tests.peers.root_classes`;
//! - `older.txt`: other versions, as described in files of many experiments, written by the same program;
//! - `stated.txt`: versions missing from those files, derived from the source code of ROOT and uproot;
//! - `by_hand.txt`: versions written by the hand-written streamers of ROOT 4 and older, derived from their source code.
//!
//! [`crate::classes::streamer::ClassInfos`] uses the first three tables only as a fallback: a description in the file
//! takes precedence.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::classes::class_info::{ClassInfo, Element};

const TABLES: [&str; 3] = [
    include_str!("root_classes/current.txt"),
    include_str!("root_classes/older.txt"),
    include_str!("root_classes/stated.txt"),
];

/// Table of class versions with hand-written streamers. These streamers also write members that are missing from the
/// streamer infos of the versions in files.
const TABLE_BY_HAND: &str = include_str!("root_classes/by_hand.txt");

/// Versions of each class, newest first, by class name.
type Classes = HashMap<&'static str, Vec<ClassInfo>>;

static CLASSES: LazyLock<Classes> = LazyLock::new(|| read(&TABLES));
static CLASSES_BY_HAND: LazyLock<Classes> = LazyLock::new(|| read(&[TABLE_BY_HAND]));

fn read(tables: &[&'static str]) -> Classes {
    let mut classes = Classes::new();
    for table in tables {
        let mut class: Option<&mut Vec<ClassInfo>> = None;
        for line in table.lines() {
            match (line.strip_prefix('\t'), class.as_deref_mut().and_then(|versions| versions.last_mut())) {
                (Some(line), Some(info)) => info.elements.extend(element(line)),
                (None, _) => class = begin_class(line, &mut classes),
                (Some(_), None) => debug_assert!(false, "an element without a class: {line}"),
            }
        }
    }
    for versions in classes.values_mut() {
        versions.sort_by_key(|info| -info.version);
    }
    classes
}

/// All built-in versions of a class, newest first; empty if the class is not built in.
pub fn versions(name: &str) -> &'static [ClassInfo] {
    CLASSES.get(name).map_or(&[], Vec::as_slice)
}

/// The newest built-in version of a class; None if the class is not built in.
pub fn newest(name: &str) -> Option<&'static ClassInfo> {
    versions(name).first()
}

/// The description of a class version that a hand-written streamer of ROOT wrote, before streamer infos existed.
pub fn by_hand(name: &str, version: i32) -> Option<&'static ClassInfo> {
    CLASSES_BY_HAND.get(name)?.iter().find(|info| info.version == version)
}

/// Parse the class name and version in `line`, and add that version to `classes`. The lines of its elements follow.
fn begin_class<'c>(line: &'static str, classes: &'c mut Classes) -> Option<&'c mut Vec<ClassInfo>> {
    let (name, version) = line.split_once('\t')?;
    let info = ClassInfo { name: name.to_string(), version: version.parse().ok()?, checksum: 0, elements: Vec::new() };
    let versions = classes.entry(name).or_default();
    versions.push(info);
    Some(versions)
}

/// Parse the element in a line: type code, name and type, then optionally dimensions, counter, base version, range and
/// container type. `tests/peers/root_classes.py` writes these lines.
fn element(line: &str) -> Option<Element> {
    let mut words = line.split('\t');
    let type_code = words.next()?.parse().ok()?;
    let (name, type_name) = (words.next()?.to_string(), words.next()?.to_string());
    let mut element = Element { name, type_code, type_name, ..Element::default() };
    for word in words {
        match word.split_at(1) {
            ("[", extent) => element.dimensions.push(extent.trim_end_matches(']').parse().ok()?),
            ("*", count_name) => element.count_name = count_name.to_string(),
            ("v", version) => element.base_version = version.parse().ok()?,
            ("%", range) => element.title = range.to_string(),
            _ => {
                let (stl_type, content_type) = word.strip_prefix("stl ")?.split_once(' ')?;
                (element.stl_type, element.content_type) = (stl_type.parse().ok()?, content_type.parse().ok()?);
            }
        }
    }
    if !element.dimensions.is_empty() {
        element.array_length = element.dimensions.iter().product();
    }
    Some(element)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::classes::streamer::ClassInfos;
    use crate::objects::Classes as CompiledClasses;

    #[test]
    fn every_line_of_the_tables_is_understood_and_no_class_has_a_version_twice() {
        every_line_is_understood(&TABLES, &CLASSES);
        every_line_is_understood(&[TABLE_BY_HAND], &CLASSES_BY_HAND);
        let classes: Vec<&ClassInfo> = CLASSES.values().flatten().collect();
        let mut known: Vec<(&str, i32)> = classes.iter().map(|info| (info.name.as_str(), info.version)).collect();
        known.sort_unstable();
        known.dedup();
        assert_eq!(known.len(), classes.len());
    }

    fn every_line_is_understood(tables: &[&str], classes: &Classes) {
        let lines = tables.iter().flat_map(|table| table.lines());
        let (elements, names): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.starts_with('\t'));
        let classes: Vec<&ClassInfo> = classes.values().flatten().collect();
        assert_eq!(classes.len(), names.len());
        assert_eq!(classes.iter().map(|info| info.elements.len()).sum::<usize>(), elements.len());
    }

    #[test]
    fn bases_are_described_too() {
        let classes = CompiledClasses::whole(Arc::new(ClassInfos::default()));
        let unread: Vec<String> = CLASSES
            .keys()
            .filter_map(|name| Some(format!("{name}: {}", classes.get(name).ok()?.unread.as_ref()?)))
            .collect();
        assert!(unread.is_empty(), "{unread:#?}");
    }
}
