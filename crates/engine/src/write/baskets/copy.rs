//! Appends copies of a tree's baskets to the output.

use std::io::IoSlice;

use branchline_format::basket::embedded::read_basket_head;
use branchline_format::cursor::Cursor;
use branchline_format::error::{FormatError, Result as FormatResult};
use branchline_format::write::{move_record, NewPlace};

use crate::error::Result;
use crate::write::baskets::bundles::{BasketReader, InputBasket};
use crate::write::baskets::digest::digest_of;
use crate::write::output::Output;
use crate::write::placed::{Placed, Places};
use crate::write::progress::Progress;

/// Size of the part of a record that changes when the record moves: its start, up to and including fSeekKey and
/// fSeekPdir.
const HEAD_BYTES: usize = 34;

/// A tree whose baskets are copied.
pub(crate) struct BasketCopy<'a> {
    pub(crate) reader: BasketReader<'a>,
    /// The offset of the tree's directory in the output.
    pub(crate) seek_directory: u64,
    /// Number of process IDs that precede the input's IDs in the output.
    pub(crate) process_ids_before: u16,
    /// Whether to compute digests of the baskets.
    pub(crate) digests: bool,
}

impl BasketCopy<'_> {
    /// Copies all baskets of the tree.
    pub(crate) fn run(&self, output: &mut Output, progress: &mut Progress<'_>) -> Result<Places> {
        let mut places = self.reader.no_places();
        self.reader.for_bundles(|bundle, records| {
            // Only the heads of records change. The remaining bytes are written from the buffer into which they were
            // read.
            let mut heads = Vec::with_capacity(HEAD_BYTES * records.len());
            let mut seek = output.end();
            for (basket, record) in bundle.iter().zip(&records) {
                let start = heads.len();
                heads.extend_from_slice(record.get(..HEAD_BYTES).unwrap_or(record));
                let moved = self.moved(basket, record, &mut heads[start..], seek);
                let place = moved.map_err(|error| self.reader.error(basket, error))?;
                let digest = if self.digests { digest_of(record) } else { 0 };
                places[basket.branch][basket.basket] = Placed { digest, ..place };
                seek += record.len() as u64;
            }
            let bytes = seek - output.end();
            let mut parts = Vec::with_capacity(2 * records.len());
            for (head, record) in heads.chunks(HEAD_BYTES).zip(&records) {
                parts.push(IoSlice::new(head));
                parts.push(IoSlice::new(record.get(HEAD_BYTES..).unwrap_or_default()));
            }
            output.write_all_of(&mut parts)?;
            progress(bytes)
        })?;
        Ok(places)
    }

    /// Skips baskets that a killed merge already wrote, branch by branch. Returns None if the written baskets do not
    /// match this tree.
    pub(crate) fn skip_written(&self, written: &[Placed], output: &mut Output) -> Result<Option<Places>> {
        let mut rest = written;
        let mut places = self.reader.no_places();
        for (places, branch) in places.iter_mut().zip(&self.reader.tree.branches) {
            let Some((own, after)) = rest.split_at_checked(places.len()) else { return Ok(None) };
            for ((place, known), basket) in places.iter_mut().zip(own).zip(&branch.baskets) {
                *place = Placed { first_entry: basket.entry_start, ..*known };
            }
            rest = after;
        }
        let bytes = written.iter().fold(0u64, |sum, basket| sum.saturating_add(basket.size));
        let region = output.end()..output.end().saturating_add(bytes);
        let is_inside = |one: &Placed| one.size == 0 || region.contains(&one.seek);
        if !rest.is_empty() || !written.iter().all(is_inside) {
            return Ok(None);
        }
        if self.digests && written.iter().any(|one| one.size > 0 && one.digest == 0) {
            self.add_digests(&mut places)?;
        }
        output.skip_written(bytes)?;
        Ok(Some(places))
    }

    /// Computes the digests of baskets that were copied without computing a digest.
    fn add_digests(&self, places: &mut Places) -> Result<()> {
        self.reader.for_bundles(|bundle, records| {
            for (basket, record) in bundle.iter().zip(&records) {
                places[basket.branch][basket.basket].digest = digest_of(record);
            }
            Ok(())
        })
    }

    /// Writes the new location of a basket into its record, and returns the location.
    pub(crate) fn place(&self, basket: &InputBasket, record: &mut [u8], seek: u64) -> Result<Placed> {
        let mut head = record.get(..HEAD_BYTES).unwrap_or(record).to_vec();
        let moved = self.moved(basket, record, &mut head, seek);
        let place = moved.map_err(|error| self.reader.error(basket, error))?;
        record[..head.len()].copy_from_slice(&head);
        Ok(Placed { digest: digest_of(record), ..place })
    }

    /// Checks that a record matches the tree's metadata, and writes the new location into `new_head`, a copy of the
    /// record's head.
    fn moved(&self, basket: &InputBasket, record: &[u8], new_head: &mut [u8], seek: u64) -> FormatResult<Placed> {
        let (key, head) = read_basket_head(&mut Cursor::new(record))?;
        let size = record.len() as u64;
        if key.size != size || head.entries_count as u64 != basket.entries_count {
            let message = format!(
                "the record at {2} has {0} bytes and {1} entries, but the tree expects {size} bytes and {3} entries",
                key.size, head.entries_count, basket.seek, basket.entries_count
            );
            return Err(FormatError::damaged(basket.seek, message));
        }
        let (seek_directory, process_ids_before) = (self.seek_directory, self.process_ids_before);
        move_record(new_head, NewPlace { seek, seek_directory, process_ids_before })?;
        let plain_size = key.key_size + key.object_size;
        Ok(Placed { first_entry: basket.first_entry, seek, size, plain_size, digest: 0 })
    }
}
