//! TStreamerInfo: the class descriptions stored in a file.
//!
//! ```
//! use branchline_format::classes::streamer::ClassInfos;
//!
//! // Descriptions of ROOT's own classes are built in.
//! let infos = ClassInfos::default();
//! assert!(infos.newest("TH1D").is_some());
//! assert!(!infos.describes("TH1D"), "the file itself describes no class");
//! ```

use std::collections::{HashMap, HashSet};

pub use crate::classes::class_info::{ClassInfo, Element};

use crate::classes::buffer::{NameAndTitle, ObjectBuffer, Pointer};
use crate::classes::cpp_type::CppType;
use crate::classes::root_classes;
use crate::error::{FormatError, Result};
use crate::numbers::number::Number;
use crate::numbers::scalar::Scalar;
use crate::numbers::type_code::{ARRAY_STEP, BASE, INT, STL};

/// Class descriptions of a file, with the built-in descriptions of ROOT's classes (`root_classes`) as fallback. If both
/// describe the same version of a class, the file takes precedence.
#[derive(Debug, Clone, Default)]
pub struct ClassInfos {
    by_name: HashMap<String, Vec<ClassInfo>>,
    /// Class names by their [`spelling_key`].
    name_by_spelling: HashMap<String, String>,
}

/// Type code of a fixed-size array of ints.
const INT_ARRAY: i32 = INT + ARRAY_STEP;

/// Normalize the spelling of a class name: spaces, `std::`, aliases of numeric types, and in pairs also the kinds of
/// containers. This is needed because streamer infos and other parts of a file spell class names differently.
fn spelling_key(name: &str) -> String {
    let pair = CppType::parse(name).filter(|parsed| matches!(parsed, CppType::Pair(..))).map(|pair| pair.name());
    let name = pair.as_deref().unwrap_or(name);
    let packed = |part: &str| part.replace("std::", "").split_whitespace().collect::<String>();
    let Some((class, arguments)) = name.split_once('<') else { return packed(name) };
    let is_word = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | ':' | ' ');
    let mut key = packed(class) + "<";
    for part in arguments.split_inclusive(|letter| !is_word(letter)) {
        let word = part.trim_end_matches(|letter| !is_word(letter));
        let number = Number::of_type_name(word.trim()).map(Number::type_name);
        key += &number.map_or_else(|| packed(word), String::from);
        key += &part[word.len()..];
    }
    key
}

impl ClassInfos {
    /// Parse the TList of TStreamerInfo objects in the uncompressed bytes of its record, whose key has `key_size`
    /// bytes.
    pub fn read(bytes: &[u8], key_size: u64) -> Result<Self> {
        let mut infos = Self::default();
        infos.read_list(&mut ObjectBuffer::new(bytes, key_size))?;
        Ok(infos)
    }

    /// Add the streamer infos stored in an RNTuple (section "Extra type information"). Their list is written as a
    /// pointer with its class name.
    pub fn add_pointed(&mut self, bytes: &[u8]) -> Result<()> {
        let mut buffer = ObjectBuffer::new(bytes, 0);
        match buffer.pointer()? {
            Pointer::New { class_name, end, .. } if &*class_name == "TList" => {
                self.read_list(&mut buffer)?;
                buffer.finish_pointer(end)
            }
            Pointer::New { class_name, .. } => Err(FormatError::damaged(
                0,
                format!("expected a list of streamer infos, found an object of class {class_name}"),
            )),
            Pointer::Null | Pointer::Seen(_) => {
                Err(FormatError::damaged(0, "expected a list of streamer infos, found a pointer without an object"))
            }
        }
    }

    fn read_list(&mut self, buffer: &mut ObjectBuffer<'_>) -> Result<()> {
        let count = buffer.tlist()?;
        for _ in 0..count {
            let pointer = buffer.pointer()?;
            if let Pointer::New { class_name, end, .. } = &pointer {
                if &**class_name == "TStreamerInfo" {
                    self.insert(read_info(buffer)?);
                } else if end.is_none() {
                    return Err(unknown_length(class_name));
                }
                buffer.finish_pointer(*end)?;
            }
            buffer.cursor.string_bytes()?; // option string of the TList entry
        }
        Ok(())
    }

    /// Add the classes and versions in `others` that `self` lacks.
    pub fn add_missing(&mut self, others: &Self) {
        for info in others.by_name.values().flatten() {
            if self.named(&info.name).iter().all(|known| known.version != info.version) {
                self.insert(info.clone());
            }
        }
    }

    fn insert(&mut self, info: ClassInfo) {
        if !self.by_name.contains_key(&info.name) {
            self.name_by_spelling.insert(spelling_key(&info.name), info.name.clone());
        }
        self.by_name.entry(info.name.clone()).or_default().push(info);
    }

    /// Whether the file describes any version of the class.
    pub fn describes(&self, name: &str) -> bool {
        !self.named(name).is_empty()
    }

    /// The description of a class version.
    pub fn get(&self, name: &str, version: i32) -> Option<&ClassInfo> {
        let same_version = |info: &&ClassInfo| info.version == version;
        self.named(name).iter().find(same_version).or_else(|| root_classes::versions(name).iter().find(same_version))
    }

    /// Find a class description. Prefers, in this order: a match of both version and checksum, a match of the checksum,
    /// a match of the version, the newest version.
    pub fn find(&self, name: &str, version: i32, checksum: u32) -> Option<&ClassInfo> {
        let own = self.named(name);
        let same_sum = |info: &&ClassInfo| checksum != 0 && info.checksum == checksum;
        own.iter()
            .find(|info| same_sum(info) && info.version == version)
            .or_else(|| own.iter().find(same_sum))
            .or_else(|| self.get(name, version))
            .or_else(|| self.newest(name))
    }

    /// All versions of a class: first the versions in the file, then the remaining built-in versions.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &ClassInfo> {
        let own = self.named(name);
        let is_new = move |info: &&ClassInfo| own.iter().all(|known| known.version != info.version);
        own.iter().chain(root_classes::versions(name).iter().filter(is_new))
    }

    /// The newest version of a class in the file, or the newest built-in version if the file does not describe the
    /// class.
    pub fn newest(&self, name: &str) -> Option<&ClassInfo> {
        self.named(name).iter().max_by_key(|info| info.version).or_else(|| root_classes::newest(name))
    }

    /// The integer type of an enumeration. Files do not describe enumerations, so the type is inferred from a container
    /// or std::pair with this enumeration.
    pub(crate) fn enumeration(&self, name: &str) -> Option<Scalar> {
        let of_element = |info: &ClassInfo, element: &Element| {
            let container = element.type_name.trim_end_matches('*');
            let content = container.split_once('<').and_then(|(_, content)| content.strip_suffix('>'));
            let code = match content {
                Some(content) if content.trim() == name => element.content_type,
                // Only pairs are reliable: all other classes declare their enumerations as int.
                None if info.name.starts_with("pair<") && element.type_name == name => element.type_code,
                _ => return None,
            };
            Scalar::of_type_code(code, None).filter(|_| content.is_some() || code != INT)
        };
        let infos = || self.by_name.values().flatten();
        infos().find_map(|info| info.elements.iter().find_map(|element| of_element(info, element)))
    }

    /// Whether the file describes this member but ROOT never writes it: a fixed-size array of an enumeration whose
    /// underlying type is not int (TStreamerInfo::WriteBuffer: "not supported yet").
    pub(crate) fn is_left_out(&self, element: &Element) -> bool {
        is_array_of_enumeration(element)
            && self.enumeration(&element.type_name).is_some_and(|scalar| scalar != Scalar::from(Number::I32))
    }

    /// Whether ROOT may have omitted the member: a fixed-size array of an enumeration whose integer type is unknown.
    pub(crate) fn may_be_left_out(&self, element: &Element) -> bool {
        is_array_of_enumeration(element) && self.enumeration(&element.type_name).is_none()
    }

    /// The versions of a class in the file, regardless of spelling. A name without a namespace also matches a class in
    /// a namespace, if only one such class exists.
    fn named(&self, name: &str) -> &[ClassInfo] {
        let other_spelling = || self.by_name.get(self.name_by_spelling.get(&spelling_key(name))?);
        let in_namespace = || {
            let key = spelling_key(name);
            let is_it =
                |spelling: &&String| spelling.strip_suffix(key.as_str()).is_some_and(|rest| rest.ends_with("::"));
            let mut found = self.name_by_spelling.keys().filter(is_it);
            let only = found.next().filter(|_| found.next().is_none() && root_classes::newest(name).is_none())?;
            self.by_name.get(self.name_by_spelling.get(only)?)
        };
        self.by_name.get(name).or_else(other_spelling).or_else(in_namespace).map_or(&[], Vec::as_slice)
    }

    /// All array members, of any class in the file, whose length is stored in another member.
    pub fn counted_arrays(&self) -> impl Iterator<Item = &Element> {
        let elements = self.by_name.values().flatten().flat_map(|info| &info.elements);
        elements.filter(|element| !element.count_name.is_empty())
    }

    /// Whether `name` is `base` or inherits from it.
    pub fn inherits(&self, name: &str, base: &str) -> bool {
        self.lineage(name).contains(&base)
    }

    /// The chain of first base classes: a class, its first base class, the first base class of that class, and so on.
    /// The members of these classes come first in an object.
    pub fn first_bases<'a>(&'a self, name: &'a str) -> Vec<&'a str> {
        let mut chain = vec![name];
        while let Some(last) = chain.last() {
            let own = self.by_name.get(*last).map_or(&[][..], Vec::as_slice);
            let infos = if own.is_empty() { root_classes::versions(last) } else { own };
            let first = infos.iter().find_map(|info| info.elements.first());
            // A base class TNamed has its own type code instead of BASE.
            match first.filter(|first| first.type_code == BASE || first.name == "TNamed") {
                // The base classes in a damaged file may form a cycle.
                Some(base) if !chain.contains(&base.name.as_str()) => chain.push(&base.name),
                _ => break,
            }
        }
        chain
    }

    /// A class and all its direct and indirect base classes, nearest first.
    pub fn lineage<'a>(&'a self, name: &'a str) -> Vec<&'a str> {
        // Visit each class once, because the base classes in a damaged file may form a cycle.
        let mut seen = HashSet::from([name]);
        let mut lineage = vec![name];
        let mut next = 0;
        while let Some(name) = lineage.get(next) {
            let own = self.by_name.get(*name).map_or(&[][..], Vec::as_slice);
            let infos = if own.is_empty() { root_classes::versions(name) } else { own };
            let bases = infos.iter().flat_map(|info| &info.elements).filter(|element| element.type_code == BASE);
            let new: Vec<&str> = bases.map(|element| element.name.as_str()).filter(|name| seen.insert(name)).collect();
            lineage.extend(new);
            next += 1;
        }
        lineage
    }
}

/// Whether a member has the type code of a fixed-size array of ints but the type name of an enumeration.
fn is_array_of_enumeration(element: &Element) -> bool {
    matches!(element.type_code, INT | INT_ARRAY)
        && element.array_length > 0
        && Number::of_type_name(&element.type_name).is_none()
}

fn unknown_length(class_name: &str) -> FormatError {
    FormatError::damaged(0, format!("the object of class {class_name} has no byte count"))
}

/// Parse a TStreamerInfo (TStreamerInfo::Streamer).
fn read_info(buffer: &mut ObjectBuffer<'_>) -> Result<ClassInfo> {
    let header = buffer.cursor.version_header()?;
    let name = buffer.tnamed()?.name;
    let checksum = buffer.cursor.u32()?;
    let version = buffer.cursor.i32()?;
    let mut elements = Vec::new();
    if let Pointer::New { end, .. } = buffer.pointer()? {
        let count = buffer.tobjarray()?;
        for _ in 0..count {
            if let Pointer::New { class_name, end, .. } = buffer.pointer()? {
                elements.push(read_element(buffer, &class_name)?);
                buffer.finish_pointer(end)?;
            }
        }
        buffer.finish_pointer(end)?;
    }
    buffer.cursor.finish(header)?;
    Ok(ClassInfo { name, version, checksum, elements })
}

/// Parse an element whose class is TStreamerElement or inherits from it.
fn read_element(buffer: &mut ObjectBuffer<'_>, class_name: &str) -> Result<Element> {
    if class_name == "TStreamerElement" {
        return read_element_base(buffer);
    }
    let header = buffer.cursor.version_header()?;
    if class_name == "TStreamerSTLstring" {
        let mut element = read_element(buffer, "TStreamerSTL")?; // its base class
        element.type_code = element.type_code.max(STL);
        buffer.cursor.finish(header)?;
        return Ok(element);
    }
    let mut element = read_element_base(buffer)?;
    match class_name {
        "TStreamerBase" if header.version > 2 => element.base_version = buffer.cursor.i32()?,
        "TStreamerBasicPointer" | "TStreamerLoop" => {
            let _count_version = buffer.cursor.i32()?;
            element.count_name = buffer.cursor.string()?;
        }
        "TStreamerSTL" => {
            element.stl_type = buffer.cursor.i32()?;
            element.content_type = buffer.cursor.i32()?;
        }
        _ => {}
    }
    buffer.cursor.finish(header)?;
    Ok(element)
}

/// Parse a TStreamerElement (TStreamerElement::Streamer). Version 1 stores the length of the dimensions array
/// before the array; later versions always store five dimensions.
fn read_element_base(buffer: &mut ObjectBuffer<'_>) -> Result<Element> {
    let header = buffer.cursor.version_header()?;
    let NameAndTitle { name, title } = buffer.tnamed()?;
    let cursor = &mut buffer.cursor;
    let type_code = cursor.i32()?;
    let _size = cursor.i32()?;
    let array_length = cursor.i32()?;
    let Ok(array_length) = usize::try_from(array_length) else {
        let message = format!("member {name} has an invalid array length of {array_length}");
        return Err(FormatError::damaged(cursor.position() as u64, message));
    };
    let dimensions_count = cursor.i32()?;
    let recorded = if header.version == 1 { i64::from(cursor.i32()?) } else { 5 };
    let recorded = cursor.checked_count(recorded, 4)?;
    let mut dimensions = Vec::new();
    for index in 0..recorded {
        let extent = cursor.i32()?;
        if (index as i64) < i64::from(dimensions_count) {
            dimensions.push(usize::try_from(extent).unwrap_or(0));
        }
    }
    let type_name = cursor.string()?;
    cursor.finish(header)?;
    Ok(Element { name, title, type_code, array_length, dimensions, type_name, ..Element::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(name: &str, bases: &[&str]) -> ClassInfo {
        let base = |name: &&str| Element {
            name: (*name).to_string(),
            type_name: "BASE".to_string(),
            base_version: 1,
            ..Element::default()
        };
        ClassInfo { name: name.to_string(), version: 1, checksum: 0, elements: bases.iter().map(base).collect() }
    }

    #[test]
    fn classes_that_inherit_from_each_other_are_gone_through_once() {
        let mut infos = ClassInfos::default();
        for number in 0..100 {
            let (first, second) = (format!("C{}", (number + 1) % 100), format!("C{}", (number + 2) % 100));
            infos.insert(class(&format!("C{number}"), &[&first, &second]));
        }
        assert!(infos.inherits("C0", "C99"));
        assert!(!infos.inherits("C0", "TTree"));
        assert_eq!(infos.lineage("C0")[..3], ["C0", "C1", "C2"]);
    }
}
