//! Reordering of a column, for unions whose values are not stored in entry order.

use crate::column::Column;

/// Select the values at the indexes in `order`, in that order. Each index must be in bounds and occur at most once.
pub fn reordered(column: &Column, order: &[usize]) -> Column {
    match column {
        Column::Flat { dtype, values } => {
            let size = values.len().checked_div(column.values_count()).unwrap_or(0);
            Column::Flat { dtype, values: pieces(values, order, size) }
        }
        Column::Regular { size, content } => {
            let inner: Vec<usize> = order.iter().flat_map(|number| number * size..(number + 1) * size).collect();
            Column::Regular { size: *size, content: Box::new(reordered(content, &inner)) }
        }
        Column::List { offsets, content } => {
            let (offsets, inner) = moved_lists(offsets, order);
            Column::List { offsets, content: Box::new(reordered(content, &inner)) }
        }
        Column::Text { offsets, bytes } => {
            let (offsets, inner) = moved_lists(offsets, order);
            Column::Text { offsets, bytes: pieces(bytes, &inner, 1) }
        }
        Column::Record { class_name, members, .. } => {
            let moved = |(name, member): &(String, Column)| (name.clone(), reordered(member, order));
            let members = members.iter().map(moved).collect();
            Column::Record { class_name: class_name.clone(), count: order.len(), members }
        }
        Column::Tuple { items, .. } => {
            let items = items.iter().map(|item| reordered(item, order)).collect();
            Column::Tuple { count: order.len(), items }
        }
        Column::Option { valid, content } => {
            let before = counts_before(valid, |valid| usize::from(*valid != 0));
            let inner: Vec<usize> =
                order.iter().filter(|number| valid[**number] != 0).map(|one| before[*one]).collect();
            Column::Option { valid: pieces(valid, order, 1), content: Box::new(reordered(content, &inner)) }
        }
        Column::Union { tags, contents } => {
            let of_each = contents.iter().enumerate().map(|(tag, content)| {
                let is_own = |number: &usize| usize::from(tags[*number]) == tag;
                let before = counts_before(tags, |own| usize::from(usize::from(*own) == tag));
                let inner: Vec<usize> = order.iter().copied().filter(is_own).map(|number| before[number]).collect();
                reordered(content, &inner)
            });
            let contents = of_each.collect();
            Column::Union { tags: pieces(tags, order, 1), contents }
        }
    }
}

fn pieces(bytes: &[u8], order: &[usize], size: usize) -> Vec<u8> {
    order.iter().flat_map(|number| &bytes[number * size..(number + 1) * size]).copied().collect()
}

/// Offsets of the reordered lists, and the original indexes of their elements.
fn moved_lists(offsets: &[i64], order: &[usize]) -> (Vec<i64>, Vec<usize>) {
    let mut elements = Vec::new();
    let mut moved = vec![0];
    for number in order {
        elements.extend(offsets[*number] as usize..offsets[number + 1] as usize);
        moved.push(elements.len() as i64);
    }
    (moved, elements)
}

/// Exclusive running sum: for each value, the sum of the counts of all values before it.
fn counts_before(values: &[u8], count: impl Fn(&u8) -> usize) -> Vec<usize> {
    let mut sum = 0;
    let before = |value: &u8| {
        let before = sum;
        sum += count(value);
        before
    };
    values.iter().map(before).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(values: &[u8]) -> Box<Column> {
        Box::new(Column::Flat { dtype: "u1", values: values.to_vec() })
    }

    #[test]
    fn values_of_every_kind_keep_what_belongs_to_them() {
        let order = [2, 0];
        let short = Column::Flat { dtype: "i2", values: vec![1, 1, 2, 2, 3, 3] };
        assert_eq!(reordered(&short, &order), Column::Flat { dtype: "i2", values: vec![3, 3, 1, 1] });
        let regular = Column::Regular { size: 2, content: bytes(&[1, 2, 3, 4, 5, 6]) };
        assert_eq!(reordered(&regular, &order), Column::Regular { size: 2, content: bytes(&[5, 6, 1, 2]) });
        let list = Column::List { offsets: vec![0, 2, 2, 3], content: bytes(&[1, 2, 3]) };
        assert_eq!(reordered(&list, &order), Column::List { offsets: vec![0, 1, 3], content: bytes(&[3, 1, 2]) });
        let text = Column::Text { offsets: vec![0, 2, 2, 3], bytes: b"abc".to_vec() };
        assert_eq!(reordered(&text, &order), Column::Text { offsets: vec![0, 1, 3], bytes: b"cab".to_vec() });
        let option = Column::Option { valid: vec![1, 0, 1], content: bytes(&[1, 3]) };
        assert_eq!(reordered(&option, &order), Column::Option { valid: vec![1, 1], content: bytes(&[3, 1]) });
        assert_eq!(reordered(&option, &[1, 2]), Column::Option { valid: vec![0, 1], content: bytes(&[3]) });
        let union = Column::Union { tags: vec![0, 1, 0], contents: vec![*bytes(&[1, 3]), short.clone()] };
        let expected = Column::Union { tags: vec![1, 0], contents: vec![*bytes(&[1]), reordered(&short, &[0])] };
        assert_eq!(reordered(&union, &[1, 0]), expected);
        let members = vec![("a".to_string(), list.clone())];
        let record = Column::Record { class_name: None, count: 3, members };
        let members = vec![("a".to_string(), reordered(&list, &order))];
        assert_eq!(reordered(&record, &order), Column::Record { class_name: None, count: 2, members });
    }
}
