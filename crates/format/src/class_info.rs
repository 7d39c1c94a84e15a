//! What a streamer info says of a class: its bases and members in the order of streaming.

use crate::member_kind::MemberKind;
use crate::range::FloatRange;
use crate::type_code::{ARRAY_STEP, DOUBLE32, FLOAT16};

/// One member or base class of a class.
#[derive(Debug, Clone, PartialEq)]
pub struct Element {
    /// Member or base class name.
    pub name: String,
    /// Its comment, where ranges and counters are declared.
    pub title: String,
    /// TStreamerElement::fType (TVirtualStreamerInfo::EReadWrite).
    pub type_code: i32,
    /// Elements of a fixed array, 0 or 1 for a single value.
    pub array_length: usize,
    /// Its dimensions, outermost first.
    pub dimensions: Vec<usize>,
    /// C++ type.
    pub type_name: String,
    /// Member that counts a variable array.
    pub count_name: String,
    /// TStreamerSTL::fSTLtype.
    pub stl_type: i32,
    /// TStreamerSTL::fCtype: type code of what a container holds.
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
    /// Checksum of its members.
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
