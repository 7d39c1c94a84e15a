//! Determines which baskets a chunk needs, and the groups of columns in which the baskets are fetched.

use std::ops::Range;

use crate::error::Result;
use crate::fetch::basket_source::Carried;
use crate::fetch::request::Needed;
use crate::read::decode::chunk::Chunk;

/// Returns the baskets of a chunk, column by column.
pub(crate) fn needed_baskets(chunk: &Chunk) -> Result<Vec<Needed>> {
    let mut needed = Vec::new();
    for (column, branch) in chunk.columns.iter().enumerate() {
        let baskets = chunk.tree.baskets_of(*branch, &chunk.entries)?;
        needed.extend(baskets.map(|basket| Needed { column, basket }));
    }
    Ok(needed)
}

/// Columns whose baskets are fetched together.
#[derive(Debug, Clone)]
pub(crate) struct Group<'a> {
    pub(crate) columns: Range<usize>,
    pub(crate) needed: &'a [Needed],
}

/// Groups the columns of a chunk so that each group fetches at most this many bytes. A column that exceeds the maximum
/// forms its own group.
pub(crate) fn groups<'a>(chunk: &Chunk, needed: &'a [Needed], before: &Carried, bytes_max: u64) -> Vec<Group<'a>> {
    let mut bytes = vec![0u64; chunk.columns.len()];
    for one in needed.iter().filter(|one| before.get(one.id(&chunk.columns)).is_none()) {
        let fetched = chunk.tree.fetched_bytes(chunk.columns[one.column], one.basket, &chunk.entries);
        bytes[one.column] = bytes[one.column].saturating_add(fetched);
    }
    let first_of = |column: usize| needed.partition_point(|one| one.column < column);
    let group = |columns: Range<usize>| {
        let needed = &needed[first_of(columns.start)..first_of(columns.end)];
        Group { columns, needed }
    };
    grouped(&bytes, bytes_max).into_iter().map(group).collect()
}

/// Groups columns with these sizes so that each group has at most `bytes_max`. A column that exceeds the maximum forms
/// its own group.
pub(crate) fn grouped(bytes: &[u64], bytes_max: u64) -> Vec<Range<usize>> {
    let mut groups = Vec::new();
    let (mut first, mut sum) = (0, 0u64);
    for (column, own) in bytes.iter().enumerate() {
        sum = sum.saturating_add(*own);
        if sum > bytes_max && column > first {
            groups.push(first..column);
            (first, sum) = (column, *own);
        }
    }
    groups.push(first..bytes.len());
    groups
}

impl Group<'_> {
    /// Splits the group in two. Returns None if it has only one column.
    pub(crate) fn halves(&self) -> Option<[Self; 2]> {
        let middle = self.columns.start + self.columns.len() / 2;
        if middle == self.columns.start {
            return None;
        }
        let (first, second) = self.needed.split_at(self.needed.partition_point(|one| one.column < middle));
        Some([
            Self { columns: self.columns.start..middle, needed: first },
            Self { columns: middle..self.columns.end, needed: second },
        ])
    }
}
