//! What a decoded column has to be, whatever its bytes said: lengths that agree and offsets in order.

use branchline_format::column::Column;

/// The type of what is always missing.
const UNTYPED: &str = "unknown";

/// Elements of a column; ends the run where its parts contradict each other.
pub fn checked_len<B: AsRef<[u8]>, O: AsRef<[i64]>>(column: &Column<B, O>) -> usize {
    match column {
        Column::Flat { dtype, values } => {
            let values = values.as_ref();
            if *dtype == UNTYPED {
                assert!(values.is_empty(), "values without a type");
                return 0;
            }
            let size: usize = dtype[1..].parse().expect("a dtype ends in its size");
            assert!(values.len().is_multiple_of(size), "{} bytes of {dtype}", values.len());
            values.len() / size
        }
        Column::Regular { size, content } => {
            let length = checked_len(content);
            assert!(*size > 0 && length.is_multiple_of(*size), "{length} elements in arrays of {size}");
            length / size
        }
        Column::List { offsets, content } => check_offsets(offsets.as_ref(), checked_len(content)),
        Column::Text { offsets, bytes } => check_offsets(offsets.as_ref(), bytes.as_ref().len()),
        Column::Record { count, members, .. } => {
            members.iter().for_each(|(name, member)| assert_eq!(checked_len(member), *count, "member {name}"));
            *count
        }
        Column::Tuple { count, items } => {
            items.iter().for_each(|item| assert_eq!(checked_len(item), *count));
            *count
        }
        Column::Option { valid, content } => {
            let valid = valid.as_ref();
            let there = valid.iter().filter(|one| **one != 0).count();
            assert_eq!(checked_len(content), there);
            valid.len()
        }
        Column::Union { tags, contents } => {
            let tags = tags.as_ref();
            for (tag, content) in contents.iter().enumerate() {
                let tagged = tags.iter().filter(|one| usize::from(**one) == tag).count();
                assert_eq!(checked_len(content), tagged, "values of type {tag}");
            }
            assert!(tags.iter().all(|tag| usize::from(*tag) < contents.len()));
            tags.len()
        }
    }
}

fn check_offsets(offsets: &[i64], end: usize) -> usize {
    assert_eq!(offsets.first(), Some(&0), "the first offset");
    assert!(offsets.windows(2).all(|pair| pair[0] <= pair[1]), "offsets in order");
    assert_eq!(offsets.last(), Some(&(end as i64)), "the last offset");
    offsets.len() - 1
}
