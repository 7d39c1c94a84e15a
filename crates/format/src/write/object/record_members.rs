//! Storage forms of replaceable members, and detection of containers without pointers.

use crate::classes::class_info::Element;
use crate::numbers::member_kind::{MemberKind, Times};
use crate::numbers::number::Number;
use crate::numbers::scalar::Scalar;
use crate::numbers::type_code::{ARRAY_STEP, STL_STRING};

use super::token::MemberStorage;

/// Whether a container holds only numbers, strings and nested containers of numbers and strings, i.e. no pointers.
pub(crate) fn has_only_numbers(element: &Element) -> bool {
    (1..ARRAY_STEP).contains(&element.content_type)
        || element.content_type == STL_STRING
        || is_of_numbers(&element.type_name)
}

/// Whether a type is a string, or consists only of containers, numbers and strings.
fn is_of_numbers(type_name: &str) -> bool {
    const KNOWN: [&str; 29] = [
        "vector",
        "list",
        "deque",
        "set",
        "multiset",
        "map",
        "multimap",
        "unordered_map",
        "unordered_set",
        "pair",
        "array",
        "bitset",
        "less",
        "allocator",
        "string",
        "bool",
        "char",
        "short",
        "int",
        "long",
        "unsigned",
        "signed",
        "float",
        "double",
        "Int_t",
        "Double_t",
        "Float_t",
        "Long64_t",
        "",
    ];
    let words = type_name.split(|letter: char| "<>, ".contains(letter)).map(|word| word.trim_start_matches("std::"));
    let mut words = words.filter(|word| !word.bytes().all(|letter| letter.is_ascii_digit()));
    words.all(|word| KNOWN.contains(&word))
}

/// The storage form of a replaceable member; None for kinds of members that are never replaced.
pub(crate) fn member_storage(element: &Element, kind: MemberKind) -> Option<MemberStorage> {
    let counted = |class_name: &str| Number::of_array_class(class_name).map(MemberStorage::Counted);
    Some(match kind {
        MemberKind::Base if element.name == "TObject" => MemberStorage::Other,
        MemberKind::TObject(Times::One) => MemberStorage::Other,
        MemberKind::Base => return counted(&element.name),
        MemberKind::Number(Scalar::Plain(number)) => MemberStorage::Number(number),
        MemberKind::FixedArray(Scalar::Plain(number)) => MemberStorage::Number(number),
        MemberKind::Bits => MemberStorage::Number(Number::U32),
        MemberKind::CountedArray(Scalar::Plain(number)) => MemberStorage::Array(number),
        // The flag byte of each array shows whether the array has 64-bit numbers instead.
        MemberKind::OldSeeks => MemberStorage::Seeks(Number::I32),
        MemberKind::Object(Times::One) if element.type_name == "TObjArray" => MemberStorage::Pointers,
        MemberKind::Object(Times::One) if element.type_name == "ROOT::TIOFeatures" => MemberStorage::Other,
        MemberKind::Object(Times::One) => return counted(&element.type_name),
        MemberKind::Pointer(Times::One) if element.type_name == "THashList*" => MemberStorage::Other,
        MemberKind::Pointer(Times::One) => MemberStorage::Link,
        MemberKind::Container if element.type_name.starts_with("vector<") => {
            match MemberKind::of(element.content_type, None) {
                MemberKind::Number(Scalar::Plain(number)) => MemberStorage::Vector(number),
                MemberKind::Number(_)
                | MemberKind::Base
                | MemberKind::FixedArray(_)
                | MemberKind::CountedArray(_)
                | MemberKind::Bits
                | MemberKind::CharStar
                | MemberKind::Text(_)
                | MemberKind::TObject(_)
                | MemberKind::TNamed(_)
                | MemberKind::Object(_)
                | MemberKind::Pointer(_)
                | MemberKind::Container
                | MemberKind::ObjectArray
                | MemberKind::NotStored
                | MemberKind::OldSeeks
                | MemberKind::Unknown => return None,
            }
        }
        MemberKind::Number(_)
        | MemberKind::FixedArray(_)
        | MemberKind::CountedArray(_)
        | MemberKind::CharStar
        | MemberKind::Text(_)
        | MemberKind::TObject(Times::Array)
        | MemberKind::TNamed(_)
        | MemberKind::Object(Times::Array)
        | MemberKind::Pointer(Times::Array)
        | MemberKind::Container
        | MemberKind::ObjectArray
        | MemberKind::NotStored
        | MemberKind::Unknown => return None,
    })
}
