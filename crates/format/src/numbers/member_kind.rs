//! Storage form of a member, derived from its type code. The walker and the compiler of objects match this enum
//! exhaustively, so a new kind that one of them does not handle is a compile error.

use crate::numbers::range::FloatRange;
use crate::numbers::scalar::Scalar;
use crate::numbers::type_code::{
    ANY, ANY_INLINE, ANY_POINTER, ANY_POINTER_PLAIN, ARRAY_STEP, BASE, BITS, CACHE, CHAR_STAR, NOT_STORED, OBJECT,
    OBJECT_INLINE, OBJECT_POINTER, OLD_SEEKS, STL, STL_ARRAY, STL_POINTER, STL_POINTER_ARRAY, STL_STRING,
    STL_STRING_ARRAY, STREAMER, STREAM_LOOP, STREAM_LOOP_ARRAY, TNAMED, TOBJECT, TSTRING,
};

/// Storage form of a member.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum MemberKind {
    /// A base class.
    Base,
    /// A number.
    Number(Scalar),
    /// A fixed-size array of numbers.
    FixedArray(Scalar),
    /// A flag byte (0 for a null pointer) and an array whose length is stored in another member.
    CountedArray(Scalar),
    /// TObject::fBits.
    Bits,
    /// A four-byte length followed by the characters (`char*`).
    CharStar,
    /// A TString.
    Text(Times),
    /// A TObject without a header.
    TObject(Times),
    /// A TNamed.
    TNamed(Times),
    /// An object with a header.
    Object(Times),
    /// A pointer to an object.
    Pointer(Times),
    /// A standard library container, a std::string, or an object with a custom streamer. In a fixed-size array, one
    /// header precedes all elements.
    Container,
    /// An array of objects whose length is stored in another member (kStreamLoop).
    ObjectArray,
    /// A transient member, which is not stored.
    NotStored,
    /// Basket offsets in old branches: a flag byte followed by the offsets. The flag is 2 for 64-bit offsets; any other
    /// value means 32-bit offsets.
    OldSeeks,
    /// An unknown type code.
    Unknown,
}

/// Whether a member is a single value or a fixed-size array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Times {
    One,
    Array,
}

impl MemberKind {
    /// The storage form for a type code. `range` applies only to packed floats.
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
