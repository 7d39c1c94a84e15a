//! Which baskets a chunk needs, and in which groups of columns they are fetched.

use std::ops::Range;

use crate::error::Result;
use crate::fetch::basket_source::Carried;
use crate::fetch::request::Needed;
use crate::read::decode::chunk::Chunk;

/// The baskets of a chunk, column by column.
pub(crate) fn needed_baskets(chunk: &Chunk) -> Result<Vec<Needed>> {
    let mut needed = Vec::new();
    for (column, branch) in chunk.columns.iter().enumerate() {
        let baskets = chunk.tree.baskets_of(*branch, &chunk.entries)?;
        needed.extend(baskets.map(|basket| Needed { column, basket }));
    }
    Ok(needed)
}

/// Columns of a chunk whose baskets are fetched together.
#[derive(Debug, Clone)]
pub(crate) struct Group<'a> {
    pub(crate) columns: Range<usize>,
    pub(crate) needed: &'a [Needed],
}

/// The columns of a chunk in groups of which not more than this many bytes have to be fetched, but one column at least.
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

/// Columns with these bytes in groups of at most `bytes_max`, but one column at least.
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
    /// The same columns in two groups, if they are several.
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
