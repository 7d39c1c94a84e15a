//! Reads columns at once, in the calling thread: late reads, and the counts of baskets without entry offsets.

use std::ops::Range;
use std::sync::Arc;

use branchline_format::column::Column;
use branchline_format::decode::Counts;
use branchline_format::layout::{Kind, Layout};

use crate::assemble::assemble;
use crate::chunk::Chunk;
use crate::error::Result;
use crate::fetch::{fetch, needed_baskets};
use crate::slab::{Buffer, Pool};
use crate::tree::Tree;
use crate::worker::Worker;

/// Reads these branches for these entries and answers with the finished chunk.
pub fn read_now(tree: &Arc<Tree>, columns: Vec<usize>, entries: Range<u64>, pool: &Arc<Pool>) -> Result<Arc<Chunk>> {
    let chunk = Arc::new(Chunk::new(Arc::clone(tree), 0, entries, columns, 0, pool));
    let needed = needed_baskets(&chunk)?;
    let sources = fetch(&chunk, &needed)?;
    let tasks = assemble(&chunk, &needed, sources, &read_counts)?;
    let mut worker = Worker::new();
    for task in tasks {
        worker.run(task, |_, _| ());
    }
    Ok(chunk)
}

/// How many elements these entries of a branch have, from the branch that counts them.
pub(crate) fn read_counts(tree: &Arc<Tree>, branch: usize, entries: Range<u64>) -> Result<Counts> {
    let name = tree.branch_path(branch);
    let not_counted = || tree.contradiction(&format!("branch {name} names no branch that counts it"));
    let count = match tree.kind(branch) {
        Some(Kind::Data(Layout::Run { count: Some(count), .. } | Layout::Arrays { count, .. })) => *count,
        Some(Kind::Data(Layout::Objects(program))) => program.count().ok_or_else(not_counted)?,
        _ => return Err(not_counted()),
    };
    // A branch that counts is counted by none that would count it: files that say so would be read for ever.
    let is_plain = match tree.kind(count) {
        Some(Kind::Data(Layout::Fixed { dimensions, .. })) => dimensions.is_empty(),
        Some(Kind::Data(Layout::Run { dimensions, count: None, .. })) => dimensions.is_empty(),
        Some(Kind::Data(Layout::Run { dimensions, count: Some(outer), .. })) => {
            dimensions.is_empty() && matches!(tree.kind(*outer), Some(Kind::Data(Layout::Fixed { .. })))
        }
        _ => false,
    };
    if !is_plain {
        return Err(not_counted());
    }
    let chunk = read_now(tree, vec![count], entries, &Pool::new(0))?;
    let counts = match chunk.take()?.into_iter().next() {
        Some(Column::Flat { dtype, values }) => whole_numbers(dtype, &values).map(Counts::Entries),
        Some(Column::List { offsets, content }) => match *content {
            Column::Flat { dtype, values } => whole_numbers("i8", &offsets)
                .zip(whole_numbers(dtype, &values))
                .map(|(ends, all)| Counts::Elements(ends, all)),
            _ => None,
        },
        _ => None,
    };
    counts.ok_or_else(not_counted)
}

fn whole_numbers(dtype: &str, values: &Buffer) -> Option<Vec<i64>> {
    fn all<const SIZE: usize>(bytes: &[u8], number: impl Fn([u8; SIZE]) -> i64) -> Vec<i64> {
        bytes.as_chunks::<SIZE>().0.iter().map(|raw| number(*raw)).collect()
    }
    let bytes = values.bytes();
    Some(match dtype {
        "i1" => all(bytes, |raw| i64::from(i8::from_ne_bytes(raw))),
        "u1" => all(bytes, |raw| i64::from(u8::from_ne_bytes(raw))),
        "i2" => all(bytes, |raw| i64::from(i16::from_ne_bytes(raw))),
        "u2" => all(bytes, |raw| i64::from(u16::from_ne_bytes(raw))),
        "i4" => all(bytes, |raw| i64::from(i32::from_ne_bytes(raw))),
        "u4" => all(bytes, |raw| i64::from(u32::from_ne_bytes(raw))),
        "i8" | "u8" => all(bytes, i64::from_ne_bytes),
        _ => return None,
    })
}
