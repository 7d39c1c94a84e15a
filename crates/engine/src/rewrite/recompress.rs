//! Recompress merge: each basket is decompressed and compressed anew, by all cores, and all else is as it was.

use branchline_format::compress::Setting;
use branchline_format::error::Result as FormatResult;
use branchline_format::write::file::BEGIN;
use branchline_format::write::{move_record, BasketTools};
use bytes::Bytes;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::guard;
use crate::limits;
use crate::merge::copy::{about, for_bundles, none_laid, Laid, Wanted};
use crate::merge::input::Input;
use crate::merge::output::Output;
use crate::merge::Order;

use super::pool::Pool;

/// A record that is to be compressed anew.
struct Job {
    setting: Setting,
    record: Bytes,
    basket: Wanted,
}

/// A basket and its new record.
type Done = (Wanted, FormatResult<Vec<u8>>);

/// Compresses the baskets of one input after the other anew.
pub(crate) struct Recompressor {
    setting: Setting,
    pool: Pool<Job, Done>,
}

fn recompress(tools: &mut BasketTools, job: Job) -> Done {
    let Job { setting, record, basket } = job;
    (basket, tools.recompress(&record, basket.entries_count, setting))
}

impl Recompressor {
    /// For this compression.
    pub(crate) fn new(setting: Setting) -> Self {
        Self { setting, pool: Pool::new(recompress) }
    }

    /// Writes all baskets of an input. `written` is told how many bytes were, and may end it.
    pub(crate) fn add(
        &mut self,
        input: &Input,
        order: Order,
        output: &mut Output,
        written: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<Vec<Vec<Laid>>> {
        let mut laid = none_laid(input);
        for_bundles(input, order, |bundle, records| {
            for (basket, record) in bundle.iter().zip(records) {
                while self.pool.cost() > limits::RECOMPRESSED_AT_ONCE_BYTES {
                    self.write_next(input, output, &mut laid, written)?;
                }
                let cost = record.len() as u64;
                self.pool.hand_over(Job { setting: self.setting, record, basket: *basket }, cost);
            }
            Ok(())
        })?;
        while self.write_next(input, output, &mut laid, written)? {}
        Ok(laid)
    }

    /// Writes the basket that comes next; false if there is none.
    fn write_next(
        &mut self,
        input: &Input,
        output: &mut Output,
        laid: &mut [Vec<Laid>],
        written: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<bool> {
        let Some(done) = self.pool.next() else { return Ok(false) };
        let mistake = || ReadError::new(ReadErrorKind::Internal, input.file.path(), guard::MISTAKE);
        let (basket, record) = done.ok_or_else(mistake)?;
        let seek = output.end();
        let moved = record.and_then(|mut record| move_record(&mut record, seek, BEGIN).map(|()| record));
        let record = moved.map_err(|error| about(input, &basket, error))?;
        output.write(&record)?;
        laid[basket.branch][basket.basket] = Laid { seek, size: record.len() as u64 };
        written(record.len() as u64)?;
        Ok(true)
    }
}
