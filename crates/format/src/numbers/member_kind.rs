//! How a member is stored, by its type code. The walker and the compiler of objects match this enum, so that a new kind
//! does not compile until both know it.

use crate::numbers::range::FloatRange;
use crate::numbers::scalar::Scalar;
use crate::numbers::type_code::{
    ANY, ANY_INLINE, ANY_POINTER, ANY_POINTER_PLAIN, ARRAY_STEP, BASE, BITS, CACHE, CHAR_STAR, NOT_STORED, OBJECT,
    OBJECT_INLINE, OBJECT_POINTER, OLD_SEEKS, STL, STL_ARRAY, STL_POINTER, STL_POINTER_ARRAY, STL_STRING,
    STL_STRING_ARRAY, STREAMER, STREAM_LOOP, STREAM_LOOP_ARRAY, TNAMED, TOBJECT, TSTRING,
};

/// How a member is stored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum MemberKind {
    /// A base class.
    Base,
    /// A number.
    Number(Scalar),
    /// A fixed array of numbers.
    FixedArray(Scalar),
    /// A byte that is 0 for a null pointer, and an array whose length another member holds.
    CountedArray(Scalar),
    /// TObject::fBits.
    Bits,
    /// A four-byte length and that number of letters (`char*`).
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
    /// An array of objects whose length another member holds (kStreamLoop).
    ObjectArray,
    /// A member that exists in memory only.
    NotStored,
    /// Offsets of baskets in old branches: a byte that is 2 for offsets of 64 bits, else they have 32, and the offsets.
    OldSeeks,
    /// A type code that is not known.
    Unknown,
}

/// Whether a member is one thing or a fixed array of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Times {
    One,
    Array,
}

impl MemberKind {
    /// The kind of a member with this type code; `range` is that of a packed number.
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
            NOT_STORED | CACHE.. => Self::NotStored,
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
    use crate::numbers::number::Number;
    use crate::numbers::type_code::DOUBLE;

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
