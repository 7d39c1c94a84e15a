//! The result of a program: a tree of columns over the buffers that it fills.

use crate::numbers::scalar::Scalar;

/// The result of a program: a tree of columns over its slots, whose numbers count from the first slot of the program.
#[derive(Debug, Clone)]
pub(crate) enum Form {
    /// Numbers.
    Flat { scalar: Scalar, slot: usize },
    /// Fixed arrays.
    Regular { size: usize, content: Box<Form> },
    /// Variable arrays.
    List { slot: usize, content: Box<Form> },
    /// Strings.
    Text { slot: usize },
    /// Members side by side.
    Record { class_name: Option<String>, members: Vec<(String, Form)> },
    /// Nameless members side by side.
    Tuple(Vec<Form>),
    /// The objects behind pointers, whose classes are known when they are read; `declared` is the pointer's class.
    Pointer { slot: usize, declared: String },
}

impl Form {
    /// Fixed arrays of these extents, outermost first, of something.
    pub(crate) fn arrays(self, extents: &[usize]) -> Self {
        extents.iter().rev().fold(self, |content, size| Self::Regular { size: *size, content: Box::new(content) })
    }
}
