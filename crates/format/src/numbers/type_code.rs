//! Type codes of members in streamer infos and branches (TVirtualStreamerInfo::EReadWrite).

/// Placeholder type code for the basket offsets of TBranch up to version 9, which no streamer info describes.
pub(crate) const OLD_SEEKS: i32 = -16;
/// Type code of a member that is not stored.
pub(crate) const NOT_STORED: i32 = -1;
/// Type code of a base class.
pub(crate) const BASE: i32 = 0;
pub(crate) const CHAR: i32 = 1;
pub(crate) const SHORT: i32 = 2;
pub(crate) const INT: i32 = 3;
pub(crate) const LONG: i32 = 4;
pub(crate) const FLOAT: i32 = 5;
/// kCounter: an int that holds the length of arrays. ROOT assigns this type code to each counter whose own type code
/// would be smaller.
pub(crate) const COUNTER: i32 = 6;
pub(crate) const CHAR_STAR: i32 = 7;
pub(crate) const DOUBLE: i32 = 8;
pub(crate) const DOUBLE32: i32 = 9;
pub(crate) const LEGACY_CHAR: i32 = 10;
pub(crate) const UNSIGNED_CHAR: i32 = 11;
pub(crate) const UNSIGNED_SHORT: i32 = 12;
pub(crate) const UNSIGNED_INT: i32 = 13;
pub(crate) const UNSIGNED_LONG: i32 = 14;
/// Type code of TObject::fBits.
pub(crate) const BITS: i32 = 15;
pub(crate) const LONG64: i32 = 16;
pub(crate) const UNSIGNED_LONG64: i32 = 17;
pub(crate) const BOOL: i32 = 18;
pub(crate) const FLOAT16: i32 = 19;
/// kOffsetL: upper bound of the number type codes. kOffsetL is added to the code of a fixed-size array of numbers, and
/// twice kOffsetL (kOffsetP) to the code of a variable-size array.
pub(crate) const ARRAY_STEP: i32 = 20;
/// kObject: an object of a class that inherits from TObject.
pub(crate) const OBJECT: i32 = 61;
/// kAny: an object of a class that does not inherit from TObject.
pub(crate) const ANY: i32 = 62;
/// kObjectp: a pointer to a TObject that is never null (`//->`); the object is streamed in place.
pub(crate) const OBJECT_INLINE: i32 = 63;
/// kObjectP: a pointer to an object of a class that inherits from TObject.
pub(crate) const OBJECT_POINTER: i32 = 64;
/// kTString: a TString.
pub(crate) const TSTRING: i32 = 65;
/// kTObject: a TObject.
pub(crate) const TOBJECT: i32 = 66;
/// kTNamed: a TNamed.
pub(crate) const TNAMED: i32 = 67;
/// kAnyp: a pointer that is never null, to an object of a class that does not inherit from TObject.
pub(crate) const ANY_INLINE: i32 = 68;
/// kAnyP: a pointer to an object of a class that does not inherit from TObject.
pub(crate) const ANY_POINTER: i32 = 69;
/// kAnyPnoVT: a pointer to an object of a class without virtual functions.
pub(crate) const ANY_POINTER_PLAIN: i32 = 70;
/// kSTLp: a pointer to a standard library container.
pub(crate) const STL_POINTER: i32 = 71;
pub(crate) const STL_POINTER_ARRAY: i32 = STL_POINTER + ARRAY_STEP;
/// kSTL: a standard library container.
pub(crate) const STL: i32 = 300;
pub(crate) const STL_ARRAY: i32 = STL + ARRAY_STEP;
/// kSTLstring: a std::string.
pub(crate) const STL_STRING: i32 = 365;
pub(crate) const STL_STRING_ARRAY: i32 = STL_STRING + ARRAY_STEP;
/// kStreamer: an object with a custom streamer.
pub(crate) const STREAMER: i32 = 500;
/// kStreamLoop: an array of objects whose length is stored in another member.
pub(crate) const STREAM_LOOP: i32 = 501;
pub(crate) const STREAM_LOOP_ARRAY: i32 = STREAM_LOOP + ARRAY_STEP;
/// kCache: lower bound of the type codes of members that are not stored, such as kArtificial.
pub(crate) const CACHE: i32 = 600;
