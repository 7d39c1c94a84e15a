//! Joins the pieces of a column into one pooled buffer.

use std::sync::Arc;

use branchline_slab::{Buffer, OpenSlab, Pool};

/// Concatenates all parts. Each part is dropped once it has been copied. A single part is not copied.
pub(crate) fn joined_bytes(mut parts: Vec<Vec<u8>>, pool: &Arc<Pool>) -> Buffer {
    if parts.len() < 2 {
        return Buffer::Bytes(parts.pop().unwrap_or_default());
    }
    let mut slab = OpenSlab::new(parts.iter().map(Vec::len).sum(), pool);
    let (room, mut filled) = (slab.bytes_mut(), 0);
    for part in parts {
        if let Some(place) = room.get_mut(filled..filled + part.len()) {
            place.copy_from_slice(&part);
            filled += part.len();
        }
    }
    Buffer::Slab(slab.close())
}

/// Concatenates the offsets of all parts. The offsets of each part are shifted by the last offset of the previous part.
pub(crate) fn joined_offsets(mut parts: Vec<Vec<i64>>, pool: &Arc<Pool>) -> Buffer {
    if parts.len() < 2 {
        return Buffer::Numbers(parts.pop().unwrap_or_default());
    }
    let ends: usize = parts.iter().map(|part| part.len().saturating_sub(1)).sum();
    let mut slab = OpenSlab::new(8 * (ends + 1), pool);
    let (places, _) = slab.bytes_mut().as_chunks_mut::<8>();
    let mut places = places.iter_mut();
    let mut end = 0i64;
    if let Some(first) = places.next() {
        *first = end.to_ne_bytes();
    }
    for part in parts {
        let before = end;
        for (offset, place) in part.iter().skip(1).zip(&mut places) {
            end = before + offset;
            *place = end.to_ne_bytes();
        }
    }
    Buffer::Slab(slab.close())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_behind_each_other_in_memory_that_was_used_before() {
        let pool = Pool::new(1 << 20);
        let bytes = || joined_bytes(vec![vec![1; 3000], vec![2; 3001], Vec::new()], &pool);
        let first = bytes();
        assert_eq!(first.bytes(), [vec![1; 3000], vec![2; 3001]].concat());
        let address = first.bytes().as_ptr();
        drop(first);
        assert_eq!(bytes().bytes().as_ptr(), address);
    }

    #[test]
    fn offsets_count_on() {
        let joined = joined_offsets(vec![vec![0, 2, 2], vec![0], vec![0, 1], vec![0, 0, 3]], &Pool::new(0));
        assert_eq!(numbers_in(&joined), [0, 2, 2, 3, 3, 6]);
    }

    #[test]
    fn a_single_part_is_not_copied() {
        let part = vec![7u8; 10];
        let address = part.as_ptr();
        assert_eq!(joined_bytes(vec![part], &Pool::new(0)).bytes().as_ptr(), address);
    }

    fn numbers_in(buffer: &Buffer) -> Vec<i64> {
        buffer.bytes().as_chunks::<8>().0.iter().map(|raw| i64::from_ne_bytes(*raw)).collect()
    }
}
