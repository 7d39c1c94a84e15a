//! The classes of ROOT's own libraries, by version: files do not have to describe them.
//!
//! uproot writes objects of PyROOT without streamer infos, and old files leave out versions that ROOT knew anyway. ROOT
//! reads both by the dictionaries of its libraries; here four tables have them:
//! - `current.txt`: the streamer infos of ROOT 6.40, which `python -m tests.peers.root_classes` writes;
//! - `older.txt`: other versions, as files of many experiments describe them, written by the same program;
//! - `stated.txt`: versions that no such file describes, from the code of ROOT and uproot that reads them;
//! - `by_hand.txt`: versions that the streamers of ROOT 4 and older wrote without streamer infos, from their code.
//!
//! What a file itself describes comes before the first three: [`crate::classes::streamer::ClassInfos`] looks here for
//! what it lacks.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::classes::class_info::{ClassInfo, Element};

const TABLES: [&str; 3] = [
    include_str!("root_classes/current.txt"),
    include_str!("root_classes/older.txt"),
    include_str!("root_classes/stated.txt"),
];

/// Versions whose streamer infos, where a file has them, leave out members that were written.
const TABLE_BY_HAND: &str = include_str!("root_classes/by_hand.txt");

/// Classes by name, of each the newest version first.
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

/// All versions of one of ROOT's classes, the newest first; empty for other classes.
pub fn versions(name: &str) -> &'static [ClassInfo] {
    CLASSES.get(name).map_or(&[], Vec::as_slice)
}

/// The newest version that is known of one of ROOT's classes.
pub fn newest(name: &str) -> Option<&'static ClassInfo> {
    versions(name).first()
}

/// A class in a version that ROOT's own code wrote, member by member, before there were streamer infos.
pub fn by_hand(name: &str, version: i32) -> Option<&'static ClassInfo> {
    CLASSES_BY_HAND.get(name)?.iter().find(|info| info.version == version)
}

/// Adds the class and version that a line names, whose elements follow.
fn begin_class<'c>(line: &'static str, classes: &'c mut Classes) -> Option<&'c mut Vec<ClassInfo>> {
    let (name, version) = line.split_once('\t')?;
    let info = ClassInfo { name: name.to_string(), version: version.parse().ok()?, checksum: 0, elements: Vec::new() };
    let versions = classes.entry(name).or_default();
    versions.push(info);
    Some(versions)
}

/// The element in a line: type code, name and type, then dimensions, counter, base version, range and container type
/// where it has them (`tests/peers/root_classes.py` writes such lines).
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
