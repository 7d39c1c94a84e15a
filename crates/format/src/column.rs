//! Decoded values of a branch: nested columns of native numbers and offsets.
//!
//! ```
//! use branchline_format::column::Column;
//!
//! let mut column: Column = Column::Flat { dtype: "u1", values: vec![1, 2] };
//! column.append(Column::Flat { dtype: "u1", values: vec![3] })?;
//! assert_eq!(column.values_count(), 3);
//! # Ok::<(), branchline_format::error::FormatError>(())
//! ```

pub(crate) mod reordered;

use crate::error::{FormatError, Result};

/// Maximum number of contents of a union. The tags of a union are signed bytes, so 128 is the limit.
const UNION_CONTENTS_MAX: usize = 1 << 7;

/// Values of a branch over a range of entries. `B` is the type of byte buffers, `O` the type of 64-bit offset buffers.
#[derive(Debug, Clone, PartialEq)]
pub enum Column<B = Vec<u8>, O = Vec<i64>> {
    /// Numbers.
    Flat {
        /// NumPy type string, such as "f4".
        dtype: &'static str,
        /// Values in native byte order.
        values: B,
    },
    /// Fixed-size arrays.
    Regular {
        /// Number of elements per array.
        size: usize,
        /// Elements of all arrays, concatenated.
        content: Box<Column<B, O>>,
    },
    /// Variable-size arrays.
    List {
        /// Index of each array's first element, followed by the total number of elements.
        offsets: O,
        /// Elements of all arrays, concatenated.
        content: Box<Column<B, O>>,
    },
    /// Strings.
    Text {
        /// Start of each string in `bytes`, followed by the end of the last string.
        offsets: O,
        /// Bytes of all strings, concatenated.
        bytes: B,
    },
    /// Records with named members, stored as one column per member.
    Record {
        /// Class that selects the behavior of the records (as in Awkward Array), if any.
        class_name: Option<String>,
        /// Number of records.
        count: usize,
        /// Name and column of each member.
        members: Vec<(String, Column<B, O>)>,
    },
    /// Pairs and tuples, stored as one column per item.
    Tuple {
        /// Number of tuples.
        count: usize,
        /// Column of each item.
        items: Vec<Column<B, O>>,
    },
    /// Values that may be missing.
    Option {
        /// One byte per value: 1 if the value is present, 0 if it is missing.
        valid: B,
        /// Only the values that are present.
        content: Box<Column<B, O>>,
    },
    /// Values of several types.
    Union {
        /// One signed byte per value: the index into `contents`.
        tags: B,
        /// One column per type, with the values of that type in their original order.
        contents: Vec<Column<B, O>>,
    },
}

impl Column {
    /// Native bytes of the numbers, if the column consists of numbers or of (nested) fixed-size arrays of numbers.
    pub fn values_mut(&mut self) -> Option<&mut Vec<u8>> {
        match self {
            Self::Flat { values, .. } => Some(values),
            Self::Regular { content, .. } => content.values_mut(),
            Self::Text { .. } | Self::List { .. } | Self::Option { .. } => None,
            Self::Record { .. } | Self::Tuple { .. } | Self::Union { .. } => None,
        }
    }

    /// Append another column of the same branch. Columns of different forms become a union; this happens only for
    /// pointers, if the objects in the two columns have different classes.
    ///
    /// Fails if a union would have more than 128 contents.
    pub fn append(&mut self, other: Self) -> Result<()> {
        if !self.is_like(&other) {
            return self.append_unlike(other);
        }
        match (self, other) {
            (Self::Flat { values, .. }, Self::Flat { values: more, .. }) => values.extend_from_slice(&more),
            (Self::Regular { content, .. }, Self::Regular { content: more, .. }) => content.append(*more)?,
            (Self::List { offsets, content }, Self::List { offsets: more_offsets, content: more }) => {
                append_offsets(offsets, &more_offsets);
                content.append(*more)?;
            }
            (Self::Text { offsets, bytes }, Self::Text { offsets: more_offsets, bytes: more }) => {
                append_offsets(offsets, &more_offsets);
                bytes.extend_from_slice(&more);
            }
            (Self::Record { count, members, .. }, Self::Record { count: more_count, members: more, .. }) => {
                *count += more_count;
                members.iter_mut().zip(more).try_for_each(|((_, member), (_, more))| member.append(more))?;
            }
            (Self::Tuple { count, items }, Self::Tuple { count: more_count, items: more }) => {
                *count += more_count;
                items.iter_mut().zip(more).try_for_each(|(item, more)| item.append(more))?;
            }
            (Self::Option { valid, content }, Self::Option { valid: more_valid, content: more }) => {
                valid.extend_from_slice(&more_valid);
                content.append(*more)?;
            }
            (Self::Union { tags, contents }, Self::Union { tags: more_tags, contents: more }) => {
                append_union(tags, contents, &more_tags, more)?;
            }
            _ => return Err(FormatError::internal("columns of different forms were treated as equal")),
        }
        Ok(())
    }

    /// Whether `self` and `other` have the same type at their top level: variant, dtype, size, class and member names.
    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Flat { dtype, .. }, Self::Flat { dtype: other, .. }) => dtype == other,
            (Self::Regular { size, .. }, Self::Regular { size: other, .. }) => size == other,
            (
                Self::Record { class_name, members, .. },
                Self::Record { class_name: other_name, members: others, .. },
            ) => {
                class_name == other_name
                    && members.len() == others.len()
                    && members.iter().zip(others).all(|((name, _), (other, _))| name == other)
            }
            (Self::Tuple { items, .. }, Self::Tuple { items: others, .. }) => items.len() == others.len(),
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }

    /// Merge columns of different forms into a union, unless one of the columns is empty.
    fn append_unlike(&mut self, other: Self) -> Result<()> {
        if other.values_count() == 0 {
            return Ok(());
        }
        if self.values_count() == 0 {
            *self = other;
            return Ok(());
        }
        let whole = std::mem::replace(self, Self::Tuple { count: 0, items: Vec::new() });
        let (mut tags, mut contents) = whole.into_union();
        let (more_tags, more) = other.into_union();
        append_union(&mut tags, &mut contents, &more_tags, more)?;
        *self = Self::Union { tags, contents };
        Ok(())
    }

    fn into_union(self) -> (Vec<u8>, Vec<Self>) {
        match self {
            Self::Union { tags, contents } => (tags, contents),
            one => (vec![0; one.values_count()], vec![one]),
        }
    }

    /// Number of values.
    pub fn values_count(&self) -> usize {
        match self {
            Self::Flat { dtype, values } => values.len() / dtype_size(dtype),
            Self::Regular { size, content } => content.values_count().checked_div(*size).unwrap_or(0),
            Self::List { offsets, .. } | Self::Text { offsets, .. } => offsets.len().saturating_sub(1),
            Self::Record { count, .. } | Self::Tuple { count, .. } => *count,
            Self::Option { valid, .. } => valid.len(),
            Self::Union { tags, .. } => tags.len(),
        }
    }

    /// Concatenate columns of the same branch; None if `pieces` is empty. Memory is allocated once for the whole
    /// result, and each column is dropped once copied. Fails like [`Column::append`].
    pub fn joined(pieces: Vec<Self>) -> Result<Option<Self>> {
        let mut rest = pieces.into_iter();
        let Some(mut whole) = rest.next() else { return Ok(None) };
        whole.reserve(&rest.as_slice().iter().collect::<Vec<_>>());
        rest.try_for_each(|piece| whole.append(piece))?;
        Ok(Some(whole))
    }

    /// Concatenate columns of the same branch; None if `pieces` is empty. `bytes` and `numbers` receive the parts of
    /// one buffer in order and return the concatenated buffer. Each part passed to `numbers` has the offsets of one
    /// column, starting at 0. Fails like [`Column::append`].
    pub fn joined_by<B, O>(
        pieces: Vec<Self>,
        bytes: &mut impl FnMut(Vec<Vec<u8>>) -> B,
        numbers: &mut impl FnMut(Vec<Vec<i64>>) -> O,
    ) -> Result<Option<Column<B, O>>> {
        let is_alike = pieces.first().is_some_and(|first| {
            !matches!(first, Self::Union { .. }) && pieces.iter().all(|piece| first.is_like(piece))
        });
        if is_alike {
            return Parts::of(pieces).joined(bytes, numbers).map(Some);
        }
        let whole = Self::joined(pieces)?;
        Ok(whole.map(|whole| whole.map(&mut |one| bytes(vec![one]), &mut |one| numbers(vec![one]))))
    }

    /// Reserve memory for appending columns of the same form.
    fn reserve(&mut self, others: &[&Self]) {
        match self {
            Self::Flat { values, .. } => values.reserve_exact(others.iter().map(|one| one.bytes_count()).sum()),
            Self::Regular { content, .. } | Self::Option { content, .. } => content.reserve(&contents(others)),
            Self::List { offsets, content } => {
                offsets.reserve_exact(others.iter().map(|one| one.offsets_count()).sum());
                content.reserve(&contents(others));
            }
            Self::Text { offsets, bytes } => {
                offsets.reserve_exact(others.iter().map(|one| one.offsets_count()).sum());
                bytes.reserve_exact(others.iter().map(|one| one.bytes_count()).sum());
            }
            Self::Record { members, .. } => {
                for (index, (_, member)) in members.iter_mut().enumerate() {
                    let same = others.iter().filter_map(|one| one.member(index));
                    member.reserve(&same.collect::<Vec<_>>());
                }
            }
            // The contents of tuples and unions grow on demand.
            Self::Tuple { .. } | Self::Union { .. } => {}
        }
    }

    fn member(&self, index: usize) -> Option<&Self> {
        match self {
            Self::Record { members, .. } => members.get(index).map(|(_, member)| member),
            Self::Flat { .. }
            | Self::Regular { .. }
            | Self::List { .. }
            | Self::Text { .. }
            | Self::Tuple { .. }
            | Self::Option { .. }
            | Self::Union { .. } => None,
        }
    }

    fn bytes_count(&self) -> usize {
        match self {
            Self::Flat { values: bytes, .. } | Self::Text { bytes, .. } => bytes.len(),
            Self::Regular { .. } | Self::List { .. } | Self::Option { .. } => 0,
            Self::Record { .. } | Self::Tuple { .. } | Self::Union { .. } => 0,
        }
    }

    fn offsets_count(&self) -> usize {
        match self {
            Self::List { offsets, .. } | Self::Text { offsets, .. } => offsets.len(),
            Self::Flat { .. } | Self::Regular { .. } | Self::Option { .. } => 0,
            Self::Record { .. } | Self::Tuple { .. } | Self::Union { .. } => 0,
        }
    }
}

/// The buffers and contents of columns of the same form, grouped for concatenation.
#[derive(Default)]
struct Parts {
    /// The first column, without its buffers and contents.
    form: Option<Column<(), ()>>,
    count: usize,
    bytes: Vec<Vec<u8>>,
    numbers: Vec<Vec<i64>>,
    /// For each child column, the pieces to concatenate.
    contents: Vec<Vec<Column>>,
}

impl Parts {
    fn of(columns: Vec<Column>) -> Self {
        let mut parts = Self::default();
        for column in columns {
            let form = parts.add(column);
            parts.form.get_or_insert(form);
        }
        parts
    }

    fn add_contents(&mut self, contents: impl IntoIterator<Item = Column>) {
        for (index, content) in contents.into_iter().enumerate() {
            if self.contents.len() == index {
                self.contents.push(Vec::new());
            }
            self.contents[index].push(content);
        }
    }

    /// Move the buffers and contents of a column into `self`, and return the column's form without buffers.
    fn add(&mut self, column: Column) -> Column<(), ()> {
        let nothing = || Box::new(Column::Flat { dtype: "unknown", values: () });
        match column {
            Column::Flat { dtype, values } => {
                self.bytes.push(values);
                Column::Flat { dtype, values: () }
            }
            Column::Regular { size, content } => {
                self.add_contents([*content]);
                Column::Regular { size, content: nothing() }
            }
            Column::List { offsets, content } => {
                self.numbers.push(offsets);
                self.add_contents([*content]);
                Column::List { offsets: (), content: nothing() }
            }
            Column::Text { offsets, bytes } => {
                self.numbers.push(offsets);
                self.bytes.push(bytes);
                Column::Text { offsets: (), bytes: () }
            }
            Column::Record { class_name, count, members } => {
                self.count += count;
                let (names, contents): (Vec<String>, Vec<Column>) = members.into_iter().unzip();
                self.add_contents(contents);
                let members = names.into_iter().map(|name| (name, *nothing())).collect();
                Column::Record { class_name, count, members }
            }
            Column::Tuple { count, items } => {
                self.count += count;
                self.add_contents(items);
                Column::Tuple { count, items: Vec::new() }
            }
            Column::Option { valid, content } => {
                self.bytes.push(valid);
                self.add_contents([*content]);
                Column::Option { valid: (), content: nothing() }
            }
            Column::Union { tags, contents } => {
                self.bytes.push(tags);
                self.add_contents(contents);
                Column::Union { tags: (), contents: Vec::new() }
            }
        }
    }

    fn joined<B, O>(
        self,
        bytes: &mut impl FnMut(Vec<Vec<u8>>) -> B,
        numbers: &mut impl FnMut(Vec<Vec<i64>>) -> O,
    ) -> Result<Column<B, O>> {
        let missing = || FormatError::internal("a column lacks some of its parts");
        let joined = self.contents.into_iter().map(|columns| Column::joined_by(columns, bytes, numbers));
        let contents = joined.map(|one| one?.ok_or_else(missing)).collect::<Result<Vec<_>>>()?;
        let mut rest = contents.into_iter();
        let mut content = || rest.next().map(Box::new).ok_or_else(missing);
        Ok(match self.form.ok_or_else(missing)? {
            Column::Flat { dtype, .. } => Column::Flat { dtype, values: bytes(self.bytes) },
            Column::Regular { size, .. } => Column::Regular { size, content: content()? },
            Column::List { .. } => Column::List { offsets: numbers(self.numbers), content: content()? },
            Column::Text { .. } => Column::Text { offsets: numbers(self.numbers), bytes: bytes(self.bytes) },
            Column::Record { class_name, members, .. } => {
                let members = members.into_iter().map(|(name, _)| name).zip(rest).collect();
                Column::Record { class_name, count: self.count, members }
            }
            Column::Tuple { .. } => Column::Tuple { count: self.count, items: rest.collect() },
            Column::Option { .. } => Column::Option { valid: bytes(self.bytes), content: content()? },
            Column::Union { .. } => Column::Union { tags: bytes(self.bytes), contents: rest.collect() },
        })
    }
}

/// The child columns (`content`) of columns of the same form.
fn contents<'a>(columns: &[&'a Column]) -> Vec<&'a Column> {
    let content = |column: &&'a Column| match column {
        Column::Regular { content, .. } | Column::List { content, .. } | Column::Option { content, .. } => {
            Some(&**content)
        }
        Column::Flat { .. } | Column::Text { .. } => None,
        Column::Record { .. } | Column::Tuple { .. } | Column::Union { .. } => None,
    };
    columns.iter().filter_map(content).collect()
}

impl<B: AsRef<[u8]>, O: AsRef<[i64]>> Column<B, O> {
    /// Memory used by the column, in bytes.
    pub fn size_bytes(&self) -> usize {
        let count = |offsets: &O| 8 * offsets.as_ref().len();
        match self {
            Self::Flat { values, .. } => values.as_ref().len(),
            Self::Regular { content, .. } => content.size_bytes(),
            Self::List { offsets, content } => count(offsets) + content.size_bytes(),
            Self::Text { offsets, bytes } => count(offsets) + bytes.as_ref().len(),
            Self::Record { members, .. } => members.iter().map(|(_, member)| member.size_bytes()).sum(),
            Self::Tuple { items, .. } => items.iter().map(Self::size_bytes).sum(),
            Self::Option { valid, content } => valid.as_ref().len() + content.size_bytes(),
            Self::Union { tags, contents } => {
                tags.as_ref().len() + contents.iter().map(Self::size_bytes).sum::<usize>()
            }
        }
    }
}

impl<B, O> Column<B, O> {
    /// Convert each buffer of the column with `bytes` or `numbers`.
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

/// Append a union to another union. Contents of the same form are merged, because the pointers of two baskets may refer
/// to the same classes in a different order.
fn append_union(tags: &mut Vec<u8>, contents: &mut Vec<Column>, more_tags: &[u8], more: Vec<Column>) -> Result<()> {
    let in_order = contents.len() == more.len() && contents.iter().zip(&more).all(|(one, other)| one.is_like(other));
    let mut places = Vec::with_capacity(more.len());
    for (index, other) in more.into_iter().enumerate() {
        let known = if in_order { Some(index) } else { contents.iter().position(|one| one.is_like(&other)) };
        match known.and_then(|place| Some((place, contents.get_mut(place)?))) {
            Some((place, one)) => {
                one.append(other)?;
                places.push(place as u8);
            }
            None => {
                if contents.len() >= UNION_CONTENTS_MAX {
                    let message =
                        format!("pointers of one member refer to objects of more than {UNION_CONTENTS_MAX} classes");
                    return Err(FormatError::unsupported(message));
                }
                places.push(contents.len() as u8);
                contents.push(other);
            }
        }
    }
    tags.extend(more_tags.iter().filter_map(|tag| places.get(usize::from(*tag))));
    Ok(())
}

/// Size in bytes of one number of this NumPy type, taken from the last character of the type string.
fn dtype_size(dtype: &str) -> usize {
    dtype.bytes().last().filter(u8::is_ascii_digit).map_or(1, |digit| usize::from(digit - b'0').max(1))
}

fn append_offsets(offsets: &mut Vec<i64>, more: &[i64]) {
    let end = offsets.last().copied().unwrap_or(0);
    offsets.extend(more.iter().skip(1).map(|offset| end + offset));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(class_name: &str, values: &[u8]) -> Column {
        let member = Column::Flat { dtype: "u1", values: values.to_vec() };
        let members = vec![("x".to_string(), member)];
        Column::Record { class_name: Some(class_name.to_string()), count: values.len(), members }
    }

    fn pointers(valid: &[u8], content: Column) -> Column {
        Column::Option { valid: valid.to_vec(), content: Box::new(content) }
    }

    #[test]
    fn pointers_to_other_classes_become_a_union() {
        let mut column = pointers(&[1, 0], record("A", &[1]));
        column.append(pointers(&[1], record("B", &[2]))).unwrap();
        let union = Column::Union { tags: vec![0, 1], contents: vec![record("A", &[1]), record("B", &[2])] };
        assert_eq!(column, pointers(&[1, 0, 1], union));
    }

    #[test]
    fn unions_are_joined_class_by_class() {
        let contents = |a: &[u8], b: &[u8]| vec![record("A", a), record("B", b)];
        let mut column = Column::Union { tags: vec![0, 1], contents: contents(&[1], &[2]) };
        column
            .append(Column::Union { tags: vec![0, 1, 1], contents: vec![record("B", &[3]), record("A", &[4, 5])] })
            .unwrap();
        assert_eq!(column, Column::Union { tags: vec![0, 1, 1, 0, 0], contents: contents(&[1, 4, 5], &[2, 3]) });
    }

    fn joined(pieces: Vec<Column>) -> Column {
        let mut numbers = |parts: Vec<Vec<i64>>| {
            let mut parts = parts.into_iter();
            let mut all = parts.next().unwrap();
            parts.for_each(|more| append_offsets(&mut all, &more));
            all
        };
        Column::joined_by(pieces, &mut |parts| parts.concat(), &mut numbers).unwrap().unwrap()
    }

    #[test]
    fn columns_are_joined_as_they_are_appended() {
        let flat = |values: &[u8]| Column::Flat { dtype: "u1", values: values.to_vec() };
        let list = |offsets: &[i64], content| Column::List { offsets: offsets.to_vec(), content: Box::new(content) };
        let text = |offsets: &[i64], bytes: &[u8]| Column::Text { offsets: offsets.to_vec(), bytes: bytes.to_vec() };
        let pair = |one, other| Column::Tuple { count: 2, items: vec![one, other] };
        let arrays = |content| Column::Regular { size: 2, content: Box::new(content) };
        let whole = |offsets: &[i64], values: &[u8], class: &str| {
            let lists = list(offsets, pair(text(&[0, 1], b"a"), arrays(flat(values))));
            let member = pointers(&[1, 0], record(class, &[7]));
            let members = vec![("lists".to_string(), lists), ("pointers".to_string(), member)];
            Column::Record { class_name: None, count: 2, members }
        };
        for other_class in ["A", "B"] {
            let pieces = [
                whole(&[0, 2, 3], &[1, 2], "A"),
                whole(&[0, 0, 1], &[3, 4], other_class),
                whole(&[0, 1, 1], &[5], "A"),
            ];
            let mut appended = pieces[0].clone();
            pieces[1..].iter().for_each(|piece| appended.append(piece.clone()).unwrap());
            assert_eq!(joined(pieces.to_vec()), appended);
        }
    }

    #[test]
    fn pointers_that_were_all_null_take_the_class_of_others() {
        let mut column = pointers(&[0], record("A", &[]));
        column.append(pointers(&[1], record("B", &[7]))).unwrap();
        assert_eq!(column, pointers(&[0, 1], record("B", &[7])));
    }

    #[test]
    fn a_union_has_no_more_contents_than_its_tags_can_count() {
        let mut column = pointers(&[1], record("0", &[0]));
        for number in 1..UNION_CONTENTS_MAX {
            column.append(pointers(&[1], record(&number.to_string(), &[0]))).unwrap();
        }
        let Column::Option { content, .. } = &column else { panic!("{column:?}") };
        let Column::Union { tags, .. } = content.as_ref() else { panic!("{content:?}") };
        assert_eq!(tags.last(), Some(&(i8::MAX as u8)));
        assert!(column.append(pointers(&[1], record("one more", &[0]))).is_err());
    }
}
