//! Decodes the stored bytes of a TTree basket into values at their final position.

use std::ops::Range;

use branchline_format::basket::decode::{decode, Counts};
use branchline_format::basket::{decode_run_into, BasketRecord, Plain};
use branchline_format::compress::Codec;
use branchline_format::error::{FormatError, Result as FormatResult};
use branchline_format::layout::Layout;
use branchline_format::objects::Program;

use crate::fetch::basket_source::BasketSource;
use crate::read::decode::effort::Effort;
use crate::read::decode::task::{Target, Task};
use crate::read::decode::tools::Tools;

/// Decodes the entries of a task into its target, and returns the decoding cost.
pub(crate) fn decode_basket(
    task: &mut Task,
    layout: &Layout,
    counts: Option<&Counts>,
    mut tools: Tools<'_>,
) -> FormatResult<Effort> {
    if let (Layout::Objects(program), false) = (layout, task.followers.is_empty()) {
        return decode_together(task, program, tools);
    }
    let entries = task.entries.clone();
    let chunk = &task.chunk;
    let (column, target) = (task.column, &mut task.target);
    let ((), effort) = tools.with_plain(&task.source, task.entries_count, |plain| {
        match target {
            Target::Fixed { values } => {
                decode_fixed(layout, plain, entries, values.bytes_mut())?;
            }
            Target::Run { first_element, offsets, values } => {
                let (offsets, values) = (offsets.bytes_mut(), values.bytes_mut());
                decode_run(layout, plain, *first_element, offsets, values)?;
            }
            Target::Piece { index, .. } => {
                chunk.put_piece(column, *index, decode(layout, plain, entries, counts)?);
            }
        }
        Ok(())
    })?;
    Ok(effort)
}

/// Decodes the baskets of a task into one piece.
fn decode_together(task: &mut Task, program: &Program, mut tools: Tools<'_>) -> FormatResult<Effort> {
    let Target::Piece { index, .. } = task.target else { return Err(wrong_target()) };
    let mut all = None;
    let mut total: Option<Effort> = None;
    loop {
        let (entries, baskets) = (task.entries.clone(), task.followers.len() + 1);
        let ((), effort) = tools.with_plain(&task.source, task.entries_count, |plain| {
            all.get_or_insert_with(|| program.begin(plain.data.len() * baskets)).add(plain, entries, None)
        })?;
        match &mut total {
            Some(total) => total.include(&effort),
            None => total = Some(effort),
        }
        if !task.go_on() {
            break;
        }
    }
    let (Some(all), Some(mut total)) = (all, total) else { return Err(wrong_target()) };
    task.chunk.put_piece(task.column, index, all.finish()?);
    total.decode_ns += tools.clock.lap_ns();
    Ok(total)
}

impl Tools<'_> {
    fn with_plain<T>(
        &mut self,
        source: &BasketSource,
        entries_count: u64,
        work: impl FnOnce(&Plain<'_>) -> FormatResult<T>,
    ) -> FormatResult<(T, Effort)> {
        let mut effort = Effort {
            baskets: 1,
            compressed: source.stored().len(),
            plain: 0,
            codec: Codec::None,
            decompress_ns: 0,
            decode_ns: 0,
        };
        let result = match source {
            BasketSource::Embedded(basket) => {
                effort.plain = basket.data.len();
                work(&Plain::embedded(basket))?
            }
            BasketSource::Pages(_) => return Err(wrong_target()),
            BasketSource::Record(_) => {
                let record = BasketRecord::parse(source.stored(), entries_count)?;
                let bytes = record.decompress(self.decompressor, &mut self.scratch.plain)?;
                (effort.plain, effort.codec, effort.decompress_ns) = (bytes.len(), record.codec(), self.clock.lap_ns());
                work(&record.plain(bytes))?
            }
            BasketSource::Shared(basket) => {
                let record = BasketRecord::parse(&basket.record, entries_count)?;
                let mut is_first = false;
                let bytes = basket.plain.get_or_init(|| {
                    is_first = true;
                    let mut room = Vec::new();
                    record.decompress(self.decompressor, &mut room)?;
                    Ok(room)
                });
                let bytes = bytes.as_ref().map_err(Clone::clone)?;
                (effort.plain, effort.codec, effort.decompress_ns) = (bytes.len(), record.codec(), self.clock.lap_ns());
                if !is_first {
                    (effort.baskets, effort.compressed, effort.plain) = (0, 0, 0);
                }
                work(&record.plain(bytes))?
            }
        };
        effort.decode_ns = self.clock.lap_ns();
        Ok((result, effort))
    }
}

fn wrong_target() -> FormatError {
    FormatError::internal("a layout that needs pieces is decoded in place")
}

fn decode_fixed(layout: &Layout, plain: &Plain<'_>, entries: Range<usize>, values: &mut [u8]) -> FormatResult<()> {
    let Layout::Fixed { scalar, dimensions } = layout else { return Err(wrong_target()) };
    let entry_size = scalar.stored_size() * dimensions.iter().product::<usize>();
    let stored = plain.fixed_range(entry_size, entries)?;
    if stored.len() / scalar.stored_size() * scalar.size() != values.len() {
        return Err(FormatError::damaged(0, "the basket and its branch disagree on the number of entries"));
    }
    scalar.decode(stored, values);
    Ok(())
}

fn decode_run(
    layout: &Layout,
    plain: &Plain<'_>,
    first_element: i64,
    offsets: &mut [u8],
    values: &mut [u8],
) -> FormatResult<()> {
    let Layout::Run { scalar, dimensions, header, .. } = layout else { return Err(wrong_target()) };
    let offsets = bytemuck::try_cast_slice_mut(offsets).map_err(|_| wrong_target())?;
    decode_run_into(plain, *scalar, dimensions.iter().product(), *header, first_element, offsets, values)
}
