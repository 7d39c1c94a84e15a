//! Which baskets a chunk needs, and in which groups of columns they are fetched.

use std::ops::Range;

use crate::error::Result;
use crate::read::basket_source::Carried;
use crate::read::chunk::Chunk;
use crate::read::fetch_request::Needed;

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
    let mut groups = Vec::new();
    let (mut first_column, mut first, mut bytes) = (0, 0, 0u64);
    let mut next = 0;
    for (column, branch) in chunk.columns.iter().enumerate() {
        let start = next;
        let mut own = 0u64;
        while let Some(one) = needed.get(next).filter(|one| one.column == column) {
            if before.get(one.id(&chunk.columns)).is_none() {
                own = own.saturating_add(chunk.tree.fetched_bytes(*branch, one.basket, &chunk.entries));
            }
            next += 1;
        }
        bytes = bytes.saturating_add(own);
        if bytes > bytes_max && column > first_column {
            groups.push(Group { columns: first_column..column, needed: &needed[first..start] });
            (first_column, first, bytes) = (column, start, own);
        }
    }
    groups.push(Group { columns: first_column..chunk.columns.len(), needed: &needed[first..] });
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
