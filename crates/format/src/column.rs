//! Decoded values of a branch: native numbers, offsets, and trees of them.

use crate::layout::{Item, Layout};
use crate::scalar::Scalar;

/// Values of a branch over a range of entries. `B` holds native bytes of numbers, `O` offsets as 64-bit numbers.
#[derive(Debug, Clone, PartialEq)]
pub enum Column<B = Vec<u8>, O = Vec<i64>> {
    /// Numbers.
    Flat {
        /// NumPy's name of their type.
        dtype: &'static str,
        /// Their native bytes.
        values: B,
    },
    /// Fixed arrays.
    Regular {
        /// Elements in each.
        size: usize,
        /// All elements.
        content: Box<Column<B, O>>,
    },
    /// Variable arrays.
    List {
        /// Start of each and end of the last.
        offsets: O,
        /// All elements.
        content: Box<Column<B, O>>,
    },
    /// Strings.
    Text {
        /// Start of each and end of the last.
        offsets: O,
        /// All bytes.
        bytes: B,
    },
    /// Members side by side.
    Record(Vec<(String, Column<B, O>)>),
}

impl Column {
    /// An empty column of the form that this layout gives.
    pub fn empty(layout: &Layout) -> Self {
        match layout {
            Layout::Fixed { scalar, dimensions } => Self::fixed(*scalar, dimensions),
            Layout::Run { scalar, dimensions, .. } => Self::list(Self::fixed(*scalar, dimensions)),
            Layout::Arrays { scalar, .. } => Self::list(Self::list(Self::fixed(*scalar, &[]))),
            Layout::Bits { many: false } => Self::fixed(Scalar::U32, &[]),
            Layout::Bits { many: true } => Self::list(Self::fixed(Scalar::U32, &[])),
            Layout::Members(members) => Self::Record(
                members.iter().map(|one| (one.name.clone(), Self::fixed(one.scalar, &one.dimensions))).collect(),
            ),
            Layout::Text(_) => Self::Text { offsets: vec![0], bytes: Vec::new() },
            Layout::Nested { item, .. } => Self::of_item(item),
        }
    }

    fn fixed(scalar: Scalar, dimensions: &[usize]) -> Self {
        let flat = Self::Flat { dtype: scalar.dtype(), values: Vec::new() };
        dimensions.iter().rev().fold(flat, |content, size| Self::Regular { size: *size, content: Box::new(content) })
    }

    fn list(content: Self) -> Self {
        Self::List { offsets: vec![0], content: Box::new(content) }
    }

    fn of_item(item: &Item) -> Self {
        match item {
            Item::Scalar(scalar) => Self::fixed(*scalar, &[]),
            Item::Text => Self::Text { offsets: vec![0], bytes: Vec::new() },
            Item::List(item) | Item::Rest(item) => Self::list(Self::of_item(item)),
        }
    }

    /// Native bytes of the numbers at the bottom of fixed arrays.
    pub fn values_mut(&mut self) -> Option<&mut Vec<u8>> {
        match self {
            Self::Flat { values, .. } => Some(values),
            Self::Regular { content, .. } => content.values_mut(),
            _ => None,
        }
    }

    /// Appends another column of the same form.
    pub fn append(&mut self, other: Self) {
        match (self, other) {
            (Self::Flat { values, .. }, Self::Flat { values: more, .. }) => values.extend_from_slice(&more),
            (Self::Regular { content, .. }, Self::Regular { content: more, .. }) => content.append(*more),
            (Self::List { offsets, content }, Self::List { offsets: more_offsets, content: more }) => {
                append_offsets(offsets, &more_offsets);
                content.append(*more);
            }
            (Self::Text { offsets, bytes }, Self::Text { offsets: more_offsets, bytes: more }) => {
                append_offsets(offsets, &more_offsets);
                bytes.extend_from_slice(&more);
            }
            (Self::Record(members), Self::Record(more)) => {
                members.iter_mut().zip(more).for_each(|((_, member), (_, more))| member.append(more));
            }
            _ => debug_assert!(false, "columns of one branch have one form"),
        }
    }

    /// Bytes that the column takes in memory.
    pub fn size_bytes(&self) -> usize {
        match self {
            Self::Flat { values, .. } => values.len(),
            Self::Regular { content, .. } => content.size_bytes(),
            Self::List { offsets, content } => 8 * offsets.len() + content.size_bytes(),
            Self::Text { offsets, bytes } => 8 * offsets.len() + bytes.len(),
            Self::Record(members) => members.iter().map(|(_, member)| member.size_bytes()).sum(),
        }
    }
}

impl<B, O> Column<B, O> {
    /// The same column with its buffers held otherwise.
    pub fn map<C, P>(self, bytes: &mut impl FnMut(B) -> C, numbers: &mut impl FnMut(O) -> P) -> Column<C, P> {
        match self {
            Self::Flat { dtype, values } => Column::Flat { dtype, values: bytes(values) },
            Self::Regular { size, content } => Column::Regular { size, content: Box::new(content.map(bytes, numbers)) },
            Self::List { offsets, content } => {
                let offsets = numbers(offsets);
                Column::List { offsets, content: Box::new(content.map(bytes, numbers)) }
            }
            Self::Text { offsets, bytes: all } => Column::Text { offsets: numbers(offsets), bytes: bytes(all) },
            Self::Record(members) => {
                Column::Record(members.into_iter().map(|(name, member)| (name, member.map(bytes, numbers))).collect())
            }
        }
    }
}

fn append_offsets(offsets: &mut Vec<i64>, more: &[i64]) {
    let end = offsets.last().copied().unwrap_or(0);
    offsets.extend(more.iter().skip(1).map(|offset| end + offset));
}
