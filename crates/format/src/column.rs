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
    Record {
        /// Class whose behaviour the records have, if any.
        class_name: Option<String>,
        /// How many records there are.
        count: usize,
        /// Name and values of each member.
        members: Vec<(String, Column<B, O>)>,
    },
    /// Nameless members side by side (pairs, tuples).
    Tuple {
        /// How many tuples there are.
        count: usize,
        /// Values of each place.
        items: Vec<Column<B, O>>,
    },
    /// Values that may be missing.
    Option {
        /// One byte for each: 1 where there is a value, else 0.
        valid: B,
        /// Those that are there.
        content: Box<Column<B, O>>,
    },
    /// Values of several types.
    Union {
        /// One signed byte for each: which of the contents it is in.
        tags: B,
        /// The values of each type, in their order.
        contents: Vec<Column<B, O>>,
    },
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
            Layout::Members(members) => Self::Record {
                class_name: None,
                count: 0,
                members: members
                    .iter()
                    .map(|one| (one.name.clone(), Self::fixed(one.scalar, &one.dimensions)))
                    .collect(),
            },
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
            (Self::Record { count, members, .. }, Self::Record { count: more_count, members: more, .. }) => {
                *count += more_count;
                members.iter_mut().zip(more).for_each(|((_, member), (_, more))| member.append(more));
            }
            (Self::Tuple { count, items }, Self::Tuple { count: more_count, items: more }) => {
                *count += more_count;
                items.iter_mut().zip(more).for_each(|(item, more)| item.append(more));
            }
            (Self::Option { valid, content }, Self::Option { valid: more_valid, content: more }) => {
                valid.extend_from_slice(&more_valid);
                content.append(*more);
            }
            (Self::Union { tags, contents }, Self::Union { tags: more_tags, contents: more }) => {
                tags.extend_from_slice(&more_tags);
                contents.iter_mut().zip(more).for_each(|(content, more)| content.append(more));
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
            Self::Record { members, .. } => members.iter().map(|(_, member)| member.size_bytes()).sum(),
            Self::Tuple { items, .. } => items.iter().map(Self::size_bytes).sum(),
            Self::Option { valid, content } => valid.len() + content.size_bytes(),
            Self::Union { tags, contents } => tags.len() + contents.iter().map(Self::size_bytes).sum::<usize>(),
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
            Self::Record { class_name, count, members } => {
                let members = members.into_iter().map(|(name, member)| (name, member.map(bytes, numbers))).collect();
                Column::Record { class_name, count, members }
            }
            Self::Tuple { count, items } => {
                let items = items.into_iter().map(|item| item.map(bytes, numbers)).collect();
                Column::Tuple { count, items }
            }
            Self::Option { valid, content } => {
                Column::Option { valid: bytes(valid), content: Box::new(content.map(bytes, numbers)) }
            }
            Self::Union { tags, contents } => {
                let tags = bytes(tags);
                let contents = contents.into_iter().map(|content| content.map(bytes, numbers)).collect();
                Column::Union { tags, contents }
            }
        }
    }
}

fn append_offsets(offsets: &mut Vec<i64>, more: &[i64]) {
    let end = offsets.last().copied().unwrap_or(0);
    offsets.extend(more.iter().skip(1).map(|offset| end + offset));
}
