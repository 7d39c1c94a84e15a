//! What the plain bytes of an object consist of: pieces that are copied, what depends on where it lies - byte counts,
//! class tags, references between objects - and members that may be replaced.

use std::ops::Range;
use std::sync::Arc;

use crate::numbers::number::Number;

use super::family::OwnerKind;

/// Bytes of a byte count, and of a reference.
pub(crate) const BYTE_COUNT_BYTES: usize = 4;

/// A piece of an object's plain bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token {
    /// Copied as they are.
    Bytes(Range<usize>),
    /// Copied as they are, and only to the same place: they may hold references.
    Fixed(Range<usize>),
    /// The byte count of a version header; what it counts ends at [`Token::End`].
    Begin,
    /// The byte count, if there is one, and the class tag of an object behind a pointer, up to [`Token::End`].
    Object {
        /// The number by which it is referred to in the bytes that were taken apart.
        id: u64,
        class_name: Arc<str>,
        is_counted: bool,
    },
    /// The end of the innermost object or version header.
    End,
    /// A pointer to an object that came before; some writers put a byte count in front of it.
    Seen { id: u64, is_counted: bool },
    /// The number of pointers and the lower bound of a TObjArray, whose pointers follow: of each the token behind it.
    Array { head: Range<usize>, ends: Vec<usize> },
    /// What may be replaced begins here: its number among [`crate::write::Recording::members`].
    Member(usize),
}

/// An object whose members may be replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// What it is.
    pub kind: OwnerKind,
    /// Its class.
    pub class_name: Arc<str>,
    /// The number by which it is referred to in the bytes that were taken apart; 0 for the outermost object.
    pub id: u64,
}

/// How a member is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberStorage {
    /// A number, or a fixed array of numbers.
    Number(Number),
    /// A byte that is 0 for a null pointer, and the numbers; another member holds their count.
    Array(Number),
    /// Offsets of baskets in an old TBranch: a byte with the width of a number (2: eight bytes, else four), and the
    /// numbers.
    Seeks(Number),
    /// A TArray: a count, and the numbers.
    Counted(Number),
    /// A std::vector: a header, a count, and the numbers.
    Vector(Number),
    /// Something else, which is not replaced.
    Other,
    /// A TObjArray.
    Pointers,
    /// A pointer.
    Link,
}

/// A member that may be replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedMember {
    /// Its object: a number among [`crate::write::Recording::owners`].
    pub owner: usize,
    /// Its name.
    pub name: &'static str,
    /// How it is stored.
    pub kind: MemberStorage,
    /// The value of a number, without its fraction; the reference of a pointer. 0 for all other members.
    pub value: i64,
    /// Whether it may be the length of arrays.
    pub(crate) counts: bool,
    /// Which of the tokens are its.
    pub(crate) tokens: Range<usize>,
}
