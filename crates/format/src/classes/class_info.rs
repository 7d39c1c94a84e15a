//! The content of a streamer info: a class with its bases and members in the order of streaming.

use crate::numbers::member_kind::MemberKind;
use crate::numbers::range::FloatRange;
use crate::numbers::type_code::{ARRAY_STEP, DOUBLE32, FLOAT16};

/// One member or base class of a class.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Element {
    /// Member or base class name.
    pub name: String,
    /// The comment behind the member in the C++ code, where ranges and counters are declared.
    pub title: String,
    /// TStreamerElement::fType (TVirtualStreamerInfo::EReadWrite).
    pub type_code: i32,
    /// Elements of a fixed array; 0 or 1 for a single value (TStreamerElement::fArrayLength).
    pub array_length: usize,
    /// Extents of the fixed array, outermost first.
    pub dimensions: Vec<usize>,
    /// C++ type of the member; `BASE` for a base class.
    pub type_name: String,
    /// Name of the member that holds the length of a variable array; empty for all other members.
    pub count_name: String,
    /// TStreamerSTL::fSTLtype.
    pub stl_type: i32,
    /// Type code of the elements of a container (TStreamerSTL::fCtype).
    pub content_type: i32,
    /// TStreamerBase::fBaseVersion.
    pub base_version: i32,
}

/// A class in one of its versions.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassInfo {
    /// Class name.
    pub name: String,
    /// Its version.
    pub version: i32,
    /// Checksum of its members (TStreamerInfo::fCheckSum).
    pub checksum: u32,
    /// Bases and members in the order of streaming.
    pub elements: Vec<Element>,
}

impl Element {
    /// Range and bits of a Double32_t or Float16_t, from the member's comment.
    pub fn float_range(&self) -> Option<FloatRange> {
        FloatRange::parse(&self.title)
    }

    /// How it is stored.
    pub(crate) fn kind(&self) -> MemberKind {
        // Only packed numbers have a range in their title.
        let is_packed = matches!(self.type_code % ARRAY_STEP, DOUBLE32 | FLOAT16);
        MemberKind::of(self.type_code, is_packed.then(|| self.float_range()).flatten())
    }
}
