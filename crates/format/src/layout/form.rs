//! The result of a program: a tree of columns and the slots that the program fills.

use crate::numbers::scalar::Scalar;

/// The result of a program: a tree of columns. Slot indexes are relative to the program's first slot.
#[derive(Debug, Clone)]
pub(crate) enum Form {
    /// Numbers.
    Flat { scalar: Scalar, slot: usize },
    /// Fixed-size arrays.
    Regular { size: usize, content: Box<Form> },
    /// Variable-size arrays.
    List { slot: usize, content: Box<Form> },
    /// Strings.
    Text { slot: usize },
    /// Records with named members.
    Record { class_name: Option<String>, members: Vec<(String, Form)> },
    /// Pairs and tuples.
    Tuple(Vec<Form>),
    /// Objects that pointers refer to. The objects' classes are known only when they are read; `declared` is the class
    /// in the pointer's type.
    Pointer { slot: usize, declared: String },
}

impl Form {
    /// Wrap the form into fixed-size arrays with these dimensions, outermost first.
    pub(crate) fn arrays(self, extents: &[usize]) -> Self {
        extents.iter().rev().fold(self, |content, size| Self::Regular { size: *size, content: Box::new(content) })
    }
}
