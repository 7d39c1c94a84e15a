//! Recompresses baskets in a merge: all cores decompress baskets and compress them with another setting. Everything
//! else is copied unchanged.

use branchline_format::compress::Setting;
use branchline_format::error::Result as FormatResult;
use branchline_format::write::BasketTools;
use bytes::Bytes;

use crate::error::{ReadError, Result};
use crate::limits;
use crate::write::baskets::bundles::InputBasket;
use crate::write::baskets::copy::BasketCopy;
use crate::write::baskets::source::plain_bytes;
use crate::write::output::Output;
use crate::write::parallel::pool::Pool;
use crate::write::placed::Places;
use crate::write::progress::Progress;

/// A record to recompress.
struct Job {
    setting: Setting,
    record: Bytes,
    basket: InputBasket,
}

/// A basket with its recompressed record.
struct Recompressed {
    basket: InputBasket,
    record: FormatResult<Vec<u8>>,
}

/// Recompresses the baskets of the inputs, one input after another.
pub(crate) struct Recompressor {
    setting: Setting,
    pool: Pool<Job, Recompressed>,
}

fn recompress(tools: &mut BasketTools, job: Job) -> Recompressed {
    let Job { setting, record, basket } = job;
    let record = tools.recompress(&record, basket.entries_count, setting);
    Recompressed { basket, record }
}

impl Recompressor {
    /// Creates a recompressor that compresses with this setting.
    pub(crate) fn new(setting: Setting) -> Self {
        Self { setting, pool: Pool::new(recompress) }
    }

    /// Writes all baskets of a tree.
    pub(crate) fn add(
        &mut self,
        tree: &BasketCopy<'_>,
        output: &mut Output,
        progress: &mut Progress<'_>,
    ) -> Result<Places> {
        let mut places = tree.reader.no_places();
        let added = self.add_to(tree, output, &mut places, progress);
        if added.is_err() {
            // Drop all results still in the pool, so that they are not taken for results of the next tree.
            while self.pool.next().is_some() {}
        }
        added.map(|()| places)
    }

    fn add_to(
        &mut self,
        tree: &BasketCopy<'_>,
        output: &mut Output,
        places: &mut Places,
        progress: &mut Progress<'_>,
    ) -> Result<()> {
        let mut waiting = Vec::new();
        let mut waiting_cost = 0;
        tree.reader.for_bundles(|bundle, records| {
            for (basket, record) in bundle.iter().zip(records) {
                let cost = plain_bytes(&record);
                waiting.push((Job { setting: self.setting, record, basket: basket.clone() }, cost));
                waiting_cost += cost;
                if waiting_cost > limits::RECOMPRESSED_TOGETHER_BYTES {
                    while self.pool.cost() > limits::RECOMPRESSED_AT_ONCE_BYTES {
                        self.write_next(tree, output, places, progress)?;
                    }
                    self.pool.hand_over_all(std::mem::take(&mut waiting));
                    waiting_cost = 0;
                }
            }
            Ok(())
        })?;
        self.pool.hand_over_all(waiting);
        while self.write_next(tree, output, places, progress)? {}
        Ok(())
    }

    /// Writes the next basket. Returns false after the last basket.
    fn write_next(
        &mut self,
        tree: &BasketCopy<'_>,
        output: &mut Output,
        places: &mut Places,
        progress: &mut Progress<'_>,
    ) -> Result<bool> {
        let Some(done) = self.pool.next() else { return Ok(false) };
        let Recompressed { basket, record } =
            done.map_err(|panic| ReadError::panicked(tree.reader.file.path(), &panic))?;
        let mut record = record.map_err(|error| tree.reader.error(&basket, error))?;
        places[basket.branch][basket.basket] = tree.place(&basket, &mut record, output.end())?;
        output.write(&record)?;
        progress(record.len() as u64)?;
        Ok(true)
    }
}
