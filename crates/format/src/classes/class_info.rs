//! The contents of a streamer info: a class with its bases and members in streaming order.
//!
//! ```
//! use branchline_format::classes::class_info::Element;
//! use branchline_format::numbers::range::FloatRange;
//!
//! let member = Element { name: "fPt".to_string(), title: "[0,100,10]".to_string(), ..Element::default() };
//! assert_eq!(member.float_range(), Some(FloatRange::Scaled { xmin: 0.0, factor: 10.24 }));
//! ```

use crate::numbers::member_kind::MemberKind;
use crate::numbers::range::FloatRange;
use crate::numbers::type_code::{ARRAY_STEP, DOUBLE32, FLOAT16};

/// A member or base class of a class.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Element {
    /// Name of the member or base class.
    pub name: String,
    /// The comment after the member in the C++ source; may declare a range or a counter.
    pub title: String,
    /// ROOT's type code of the member (TStreamerElement::fType, TVirtualStreamerInfo::EReadWrite).
    pub type_code: i32,
    /// Number of elements of a fixed-size array; 0 or 1 for a single value (TStreamerElement::fArrayLength).
    pub array_length: usize,
    /// Dimensions of the fixed-size array, outermost first.
    pub dimensions: Vec<usize>,
    /// C++ type of the member; `BASE` for a base class.
    pub type_name: String,
    /// Name of the member that holds the length of a variable-size array; otherwise empty.
    pub count_name: String,
    /// Type code of the container (TStreamerSTL::fSTLtype).
    pub stl_type: i32,
    /// Type code of a container's elements (TStreamerSTL::fCtype).
    pub content_type: i32,
    /// Version of the base class (TStreamerBase::fBaseVersion).
    pub base_version: i32,
}

/// One version of a class.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassInfo {
    /// Class name.
    pub name: String,
    /// Class version.
    pub version: i32,
    /// Checksum of the members (TStreamerInfo::fCheckSum).
    pub checksum: u32,
    /// Base classes and members in streaming order.
    pub elements: Vec<Element>,
}

impl Element {
    /// Range and number of bits of a Double32_t or Float16_t, from the member's comment.
    pub fn float_range(&self) -> Option<FloatRange> {
        FloatRange::parse(&self.title)
    }

    /// Storage form of the member.
    pub(crate) fn kind(&self) -> MemberKind {
        // Only Double32_t and Float16_t declare a range in the title.
        let is_packed = matches!(self.type_code % ARRAY_STEP, DOUBLE32 | FLOAT16);
        MemberKind::of(self.type_code, is_packed.then(|| self.float_range()).flatten())
    }
}
