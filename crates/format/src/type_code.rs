//! Type codes of members, as streamer infos and branches have them (TVirtualStreamerInfo::EReadWrite),
//! and what they say of how a member is stored.

use crate::range::FloatRange;
use crate::scalar::Scalar;

/// Stands for offsets of baskets in TBranch up to version 9, which no streamer info describes.
pub(crate) const OLD_SEEKS: i32 = -16;
/// A member that is skipped.
pub(crate) const NOT_STORED: i32 = -1;
/// A base class.
pub(crate) const BASE: i32 = 0;
pub(crate) const CHAR: i32 = 1;
pub(crate) const SHORT: i32 = 2;
pub(crate) const INT: i32 = 3;
pub(crate) const LONG: i32 = 4;
pub(crate) const FLOAT: i32 = 5;
/// An int that counts an array; ROOT makes any number with a sign and a smaller code one.
pub(crate) const COUNTER: i32 = 6;
pub(crate) const CHAR_STAR: i32 = 7;
pub(crate) const DOUBLE: i32 = 8;
pub(crate) const DOUBLE32: i32 = 9;
pub(crate) const LEGACY_CHAR: i32 = 10;
pub(crate) const UNSIGNED_CHAR: i32 = 11;
pub(crate) const UNSIGNED_SHORT: i32 = 12;
pub(crate) const UNSIGNED_INT: i32 = 13;
pub(crate) const UNSIGNED_LONG: i32 = 14;
/// TObject::fBits.
pub(crate) const BITS: i32 = 15;
pub(crate) const LONG64: i32 = 16;
pub(crate) const UNSIGNED_LONG64: i32 = 17;
pub(crate) const BOOL: i32 = 18;
pub(crate) const FLOAT16: i32 = 19;
/// Numbers have codes below this; the same plus it are fixed arrays, plus twice it variable ones.
pub(crate) const ARRAY_STEP: i32 = 20;
pub(crate) const OBJECT: i32 = 61;
pub(crate) const ANY: i32 = 62;
/// A pointer that is never null: the object itself is streamed (`//->`).
pub(crate) const OBJECT_INLINE: i32 = 63;
pub(crate) const OBJECT_POINTER: i32 = 64;
pub(crate) const TSTRING: i32 = 65;
pub(crate) const TOBJECT: i32 = 66;
pub(crate) const TNAMED: i32 = 67;
pub(crate) const ANY_INLINE: i32 = 68;
pub(crate) const ANY_POINTER: i32 = 69;
pub(crate) const ANY_POINTER_PLAIN: i32 = 70;
pub(crate) const STL_POINTER: i32 = 71;
pub(crate) const STL_POINTER_ARRAY: i32 = STL_POINTER + ARRAY_STEP;
pub(crate) const STL: i32 = 300;
pub(crate) const STL_ARRAY: i32 = STL + ARRAY_STEP;
pub(crate) const STL_STRING: i32 = 365;
pub(crate) const STL_STRING_ARRAY: i32 = STL_STRING + ARRAY_STEP;
pub(crate) const STREAMER: i32 = 500;
pub(crate) const STREAM_LOOP: i32 = 501;
pub(crate) const STREAM_LOOP_ARRAY: i32 = STREAM_LOOP + ARRAY_STEP;
/// Members from here on are made in memory and not stored.
pub(crate) const ARTIFICIAL: i32 = 600;

/// How a member is stored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum MemberKind {
    /// A base class.
    Base,
    /// A number.
    Number(Scalar),
    /// A fixed array of numbers.
    FixedArray(Scalar),
    /// A byte that says whether there is one, and an array that another member counts.
    CountedArray(Scalar),
    /// TObject::fBits.
    Bits,
    /// A four-byte length and so many letters (`char*`).
    CharStar,
    /// A TString.
    Text(Times),
    /// A TObject without a header.
    TObject(Times),
    /// A TNamed.
    TNamed(Times),
    /// An object with its header.
    Object(Times),
    /// A pointer to an object.
    Pointer(Times),
    /// A container of the standard library, a std::string, or an object with a streamer of its own, behind one header
    /// for all of an array.
    Container,
    /// An array of objects that another member counts.
    ObjectArray,
    /// Made in memory, and not stored.
    NotStored,
    /// Offsets of baskets in old branches, of 32 bits behind a 1 and of 64 bits behind a 2.
    OldSeeks,
    /// Nothing that is known.
    Unknown,
}

/// Whether a member is one thing or a fixed array of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Times {
    One,
    Array,
}

impl MemberKind {
    /// What a type code says of a member with this range.
    pub(crate) fn of(type_code: i32, range: Option<FloatRange>) -> Self {
        let number = |code, kind: fn(Scalar) -> Self| Scalar::of_type_code(code, range).map_or(Self::Unknown, kind);
        match type_code {
            BASE => Self::Base,
            CHAR_STAR => Self::CharStar,
            BITS => Self::Bits,
            1..=19 => number(type_code, Self::Number),
            21..=39 => number(type_code - ARRAY_STEP, Self::FixedArray),
            41..=59 => number(type_code - 2 * ARRAY_STEP, Self::CountedArray),
            61..=70 => Self::of_object(type_code, Times::One),
            81..=90 => Self::of_object(type_code - ARRAY_STEP, Times::Array),
            STL_POINTER | STL_POINTER_ARRAY | STL | STL_ARRAY | STL_STRING | STL_STRING_ARRAY | STREAMER => {
                Self::Container
            }
            STREAM_LOOP | STREAM_LOOP_ARRAY => Self::ObjectArray,
            NOT_STORED | ARTIFICIAL.. => Self::NotStored,
            OLD_SEEKS => Self::OldSeeks,
            _ => Self::Unknown,
        }
    }

    fn of_object(type_code: i32, times: Times) -> Self {
        match type_code {
            OBJECT | ANY | OBJECT_INLINE | ANY_INLINE => Self::Object(times),
            OBJECT_POINTER | ANY_POINTER | ANY_POINTER_PLAIN => Self::Pointer(times),
            TSTRING => Self::Text(times),
            TOBJECT => Self::TObject(times),
            TNAMED => Self::TNamed(times),
            _ => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::Number;

    #[test]
    fn arrays_are_of_what_their_code_without_the_step_is() {
        let of = |code| MemberKind::of(code, None);
        assert_eq!(of(DOUBLE), MemberKind::Number(Number::F64.into()));
        assert_eq!(of(DOUBLE + ARRAY_STEP), MemberKind::FixedArray(Number::F64.into()));
        assert_eq!(of(DOUBLE + 2 * ARRAY_STEP), MemberKind::CountedArray(Number::F64.into()));
        assert_eq!(of(TSTRING + ARRAY_STEP), MemberKind::Text(Times::Array));
        assert_eq!(of(CHAR_STAR + ARRAY_STEP), MemberKind::Unknown);
        for code in [20, 40, 60, 72, 80, 299] {
            assert_eq!(of(code), MemberKind::Unknown, "{code}");
        }
    }
}
