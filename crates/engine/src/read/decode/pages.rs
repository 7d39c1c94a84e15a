//! Decodes the RNTuple pages of a field in one cluster into values at their final position.

use branchline_format::compress::Decompressor;
use branchline_format::error::{FormatError, Result as FormatResult};
use branchline_format::ntuple::cluster::{Scratch, Unpacker, UsedPage};
use branchline_trace::journal;

use crate::fetch::basket_source::{BasketSource, ClusterPages};
use crate::read::decode::clock::Clock;
use crate::read::decode::effort::Effort;
use crate::read::decode::task::{Target, Task};
use crate::read::decode::tools::Tools;

fn mistaken() -> FormatError {
    FormatError::internal("pages without a cluster")
}

/// Decodes the entries of a task into its target.
pub(crate) fn decode_cluster(task: &mut Task, tools: Tools<'_>) -> FormatResult<Effort> {
    let Tools { decompressor, scratch, clock } = tools;
    let BasketSource::Pages(pages) = &task.source else { return Err(mistaken()) };
    let reader = pages.reader()?;
    let mut decompress_ns = 0;
    let mut decompress = |from: &[u8], to: &mut [u8]| {
        let mut clock = Clock::start();
        let done = decompressor.decompress_into(from, to);
        decompress_ns += clock.lap_ns();
        done
    };
    let mut unpacker = Unpacker::new(&mut decompress, scratch);
    unpacker.pages = journal::is_on().then(Vec::new);
    let entries = task.entries.start as u64..task.entries.end as u64;
    match &mut task.target {
        Target::Fixed { values } => {
            reader.decode_fixed(&entries, &mut unpacker, values.bytes_mut())?;
        }
        Target::Run { first_element, offsets, values } => {
            let (offsets, values) = (offsets.bytes_mut(), values.bytes_mut());
            let offsets = bytemuck::try_cast_slice_mut(offsets).map_err(|_| mistaken())?;
            reader.decode_run(*first_element, &mut unpacker, offsets, values)?;
        }
        Target::Piece { index, .. } => {
            task.chunk.put_piece(task.column, *index, reader.decode(&entries, &mut unpacker)?);
        }
    }
    if let Some(pages) = unpacker.pages.take() {
        trace_pages(task, &pages);
    }
    let (stored_bytes, plain_bytes, codec) = (unpacker.stored_bytes, unpacker.plain_bytes, unpacker.codec);
    Ok(Effort {
        baskets: 1,
        compressed: stored_bytes as usize,
        plain: plain_bytes as usize,
        codec,
        decompress_ns,
        decode_ns: clock.lap_ns().saturating_sub(decompress_ns),
    })
}

/// Records in the trace which pages were used.
fn trace_pages(task: &Task, pages: &[UsedPage]) {
    let (tree, index) = (&task.chunk.tree, task.chunk.columns[task.column]);
    for UsedPage { column, locator } in pages {
        journal::used_page(&journal::UsedPage {
            file: tree.home(index).path(),
            tree: tree.path(),
            branch: journal::UsedBranch { branches: tree.traced_branches(), index },
            column: *column,
            cluster: task.basket,
            entries: task.basket_start..task.basket_start + task.entries_count,
            place: journal::UsedRange { offset: locator.offset, size_bytes: locator.size },
        });
    }
}

/// Decompresses the pages of a cluster, and passes the decompressed bytes of each page to `unpacked`. Returns the total
/// number of decompressed bytes.
pub(crate) fn decompress_cluster(
    pages: &ClusterPages,
    decompressor: &mut Decompressor,
    scratch: &mut Scratch,
    mut unpacked: impl FnMut(&[u8]),
) -> FormatResult<u64> {
    let mut decompress = |from: &[u8], to: &mut [u8]| {
        let done = decompressor.decompress_into(from, to);
        unpacked(to);
        done
    };
    let mut unpacker = Unpacker::new(&mut decompress, scratch);
    pages.reader()?.unpack(&mut unpacker)?;
    Ok(unpacker.plain_bytes)
}
