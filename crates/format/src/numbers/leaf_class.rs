//! Leaf classes and their number types.

use crate::numbers::number::Number;

/// A leaf class, and the letter for its type in a branch title (TBranch's constructor).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeafClass {
    pub(crate) number: Number,
    pub(crate) class_name: &'static str,
    pub(crate) letter: char,
    /// Whether TLeaf::fIsUnsigned is set.
    pub(crate) is_unsigned: bool,
}

const fn leaf(number: Number, class_name: &'static str, letter: char, is_unsigned: bool) -> LeafClass {
    LeafClass { number, class_name, letter, is_unsigned }
}

/// All leaf classes. If two classes have the same number type, the first class is used for writing.
const ALL: [LeafClass; 13] = [
    leaf(Number::Bool, "TLeafO", 'O', false),
    leaf(Number::I8, "TLeafB", 'B', false),
    leaf(Number::U8, "TLeafB", 'b', true),
    leaf(Number::I16, "TLeafS", 'S', false),
    leaf(Number::U16, "TLeafS", 's', true),
    leaf(Number::I32, "TLeafI", 'I', false),
    leaf(Number::U32, "TLeafI", 'i', true),
    leaf(Number::I64, "TLeafL", 'L', false),
    leaf(Number::U64, "TLeafL", 'l', true),
    leaf(Number::F32, "TLeafF", 'F', false),
    leaf(Number::F64, "TLeafD", 'D', false),
    leaf(Number::I64, "TLeafG", 'G', false),
    leaf(Number::U64, "TLeafG", 'g', true),
];

impl LeafClass {
    /// The leaf class for a number type; None for half precision, which branches of a TTree do not support.
    pub(crate) fn of_number(number: Number) -> Option<Self> {
        ALL.into_iter().find(|leaf| leaf.number == number)
    }

    /// The leaf class with this class name. `is_unsigned` matters only for integers.
    pub(crate) fn of_class(class_name: &str, is_unsigned: bool) -> Option<Self> {
        let of_class = || ALL.into_iter().filter(|leaf| leaf.class_name == class_name);
        of_class().find(|leaf| leaf.is_unsigned == is_unsigned).or_else(|| of_class().next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_leaf_that_is_written_is_read_as_the_same_number() {
        for written in ALL {
            let read = LeafClass::of_class(written.class_name, written.is_unsigned);
            assert_eq!(read, Some(written));
        }
        assert_eq!(LeafClass::of_class("TLeafF", true).map(|leaf| leaf.number), Some(Number::F32));
        assert_eq!(LeafClass::of_number(Number::F16), None);
    }
}
