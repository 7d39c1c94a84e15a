//! The parts of an object's uncompressed bytes: bytes to copy, position-dependent parts (byte counts, class tags,
//! references between objects) and replaceable members.

use std::ops::Range;
use std::sync::Arc;

use crate::numbers::number::Number;

use super::family::OwnerKind;

/// Size of a byte count or a reference.
pub(crate) const BYTE_COUNT_BYTES: usize = 4;

/// A part of an object's uncompressed bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token {
    /// Bytes that are copied.
    Bytes(Range<usize>),
    /// Bytes that may contain references, and therefore can only be copied to the same position.
    Fixed(Range<usize>),
    /// The byte count of a version header. The counted bytes end at [`Token::End`].
    Begin,
    /// A pointer to a new object: the optional byte count and the class tag. The object ends at [`Token::End`].
    Object {
        /// The reference to the object in the parsed bytes.
        id: u64,
        class_name: Arc<str>,
        is_counted: bool,
    },
    /// The end of the innermost open object or version header.
    End,
    /// A reference to an earlier object. Some writers put a byte count before the reference.
    Seen { id: u64, is_counted: bool },
    /// The length and lower bound of a TObjArray, before its pointers. `ends` has the index of the token after each
    /// pointer.
    Array { head: Range<usize>, ends: Vec<usize> },
    /// The start of a replaceable member, with its index in [`crate::write::Recording::members`].
    Member(usize),
}

/// An object with replaceable members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The kind of the object.
    pub kind: OwnerKind,
    /// Class name of the object.
    pub class_name: Arc<str>,
    /// The reference to the object in the parsed bytes; 0 for the outermost object.
    pub id: u64,
}

/// Storage form of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberStorage {
    /// A number, or a fixed-size array of numbers.
    Number(Number),
    /// A flag byte (0 for a null pointer) and an array of numbers whose length is stored in another member.
    Array(Number),
    /// Basket offsets of an old TBranch: a flag byte and the offsets. The flag is 2 for eight-byte offsets; any other
    /// value means four-byte offsets.
    Seeks(Number),
    /// A TArray: the number of elements, then the elements.
    Counted(Number),
    /// A std::vector: a header, the number of elements, then the elements.
    Vector(Number),
    /// Any other member.
    Other,
    /// A TObjArray.
    Pointers,
    /// A pointer.
    Link,
}

/// A replaceable member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedMember {
    /// Index of the member's object in [`crate::write::Recording::owners`].
    pub owner: usize,
    /// Name of the member.
    pub name: &'static str,
    /// Storage form of the member.
    pub kind: MemberStorage,
    /// For a number, the value truncated to an integer; for a pointer, the reference; otherwise 0.
    pub value: i64,
    /// Whether the member may hold the length of arrays.
    pub(crate) counts: bool,
    /// The range of the member's tokens.
    pub(crate) tokens: Range<usize>,
}
