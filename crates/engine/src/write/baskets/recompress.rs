//! Recompress merge: each basket is decompressed and compressed anew, by all cores, and all else is as it was.

use branchline_format::compress::Setting;
use branchline_format::error::Result as FormatResult;
use branchline_format::write::BasketTools;
use bytes::Bytes;

use crate::error::{ReadError, Result};
use crate::limits;
use crate::write::baskets::copy::{Copying, Places, Wanted};
use crate::write::baskets::source::plain_bytes;
use crate::write::output::Output;
use crate::write::pool::Pool;

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
    let record = tools.recompress(&record, basket.entries_count, setting);
    (basket, record)
}

impl Recompressor {
    /// For this compression.
    pub(crate) fn new(setting: Setting) -> Self {
        Self { setting, pool: Pool::new(recompress) }
    }

    /// Writes all baskets of a tree. `written` is told how many bytes were, and may end it.
    pub(crate) fn add(
        &mut self,
        tree: &Copying<'_>,
        output: &mut Output,
        written: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<Places> {
        let mut places = tree.no_places();
        let added = self.add_to(tree, output, &mut places, written);
        if added.is_err() {
            // What is in work belongs to no other tree.
            while self.pool.next().is_some() {}
        }
        added.map(|()| places)
    }

    fn add_to(
        &mut self,
        tree: &Copying<'_>,
        output: &mut Output,
        places: &mut Places,
        written: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let mut waiting = Vec::new();
        let mut waiting_cost = 0;
        tree.for_bundles(|bundle, records| {
            for (basket, record) in bundle.iter().zip(records) {
                let cost = plain_bytes(&record);
                waiting.push((Job { setting: self.setting, record, basket: basket.clone() }, cost));
                waiting_cost += cost;
                if waiting_cost > limits::RECOMPRESSED_TOGETHER_BYTES {
                    while self.pool.cost() > limits::RECOMPRESSED_AT_ONCE_BYTES {
                        self.write_next(tree, output, places, written)?;
                    }
                    self.pool.hand_over_all(std::mem::take(&mut waiting));
                    waiting_cost = 0;
                }
            }
            Ok(())
        })?;
        self.pool.hand_over_all(waiting);
        while self.write_next(tree, output, places, written)? {}
        Ok(())
    }

    /// Writes the basket that comes next; false if there is none.
    fn write_next(
        &mut self,
        tree: &Copying<'_>,
        output: &mut Output,
        places: &mut Places,
        written: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<bool> {
        let Some(done) = self.pool.next() else { return Ok(false) };
        let (basket, record) = done.map_err(|panic| ReadError::panicked(tree.file.path(), &panic))?;
        let mut record = record.map_err(|error| tree.told(&basket, error))?;
        tree.place(&basket, &mut record, output.end(), places)?;
        output.write(&record)?;
        written(record.len() as u64)?;
        Ok(true)
    }
}
