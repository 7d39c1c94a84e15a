//! Copies the baskets of a tree behind what was written already.

use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;

use branchline_format::cursor::Cursor;
use branchline_format::error::FormatError;
use branchline_format::layout::kind_of;
use branchline_format::tree::embedded::{read_basket_head, EmbeddedBasket};
use branchline_format::tree::{Place, TTree};
use branchline_format::write::{embedded_record, move_record, NewPlace};
use branchline_storage::limits::MAX_JOINED_BYTES;
use branchline_storage::{coalesce, ByteRange, RangeRead};
use bytes::Bytes;
use crossbeam_channel::bounded;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{ReadError, Result};
use crate::file::File;
use crate::write::merge::Order;
use crate::write::output::Output;
use crate::{limits, read_buffers};

/// A tree whose baskets are copied.
pub(crate) struct Copying<'a> {
    pub(crate) file: &'a File,
    pub(crate) tree: &'a TTree,
    pub(crate) order: Order,
    /// Where the directory lies that the tree is to be in.
    pub(crate) seek_directory: u64,
    /// Process ids of the output in front of those of the input.
    pub(crate) process_ids_before: u16,
    /// What is read at a time.
    pub(crate) bundle_bytes: u64,
    /// Whether it is noted what tells the bytes of baskets from others.
    pub(crate) digests: bool,
}

/// Where a basket or a page lies in the output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Copied {
    pub(crate) seek: u64,
    pub(crate) size: u64,
    /// Bytes before compression, key included; of a page its elements.
    pub(crate) plain_size: u64,
    /// Of all its bytes but those that say where it lies; 0 if nobody wanted to know.
    pub(crate) digest: u64,
}

/// Where the baskets of each branch lie in the output.
pub(crate) type Places = Vec<Vec<Copied>>;

/// A basket to copy.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) branch: usize,
    pub(crate) basket: usize,
    entry_start: u64,
    pub(crate) entries_count: u64,
    seek: u64,
    size: u64,
    embedded: Option<Arc<EmbeddedBasket>>,
}

impl Wanted {
    /// Its entries in the tree.
    pub(crate) fn entries(&self) -> Range<u64> {
        self.entry_start..self.entry_start + self.entries_count
    }
}

impl Copying<'_> {
    /// Copies all baskets. `copied` is told how many bytes were, and may end the merge.
    pub(crate) fn run(&self, output: &mut Output, copied: &mut dyn FnMut(u64) -> Result<()>) -> Result<Places> {
        let mut places = self.no_places();
        self.for_bundles(|bundle, records| {
            // Only the heads of records are written anew; all else goes from where it was read to the output.
            let mut heads = Vec::with_capacity(HEAD_BYTES * records.len());
            let mut seek = output.end();
            for (basket, record) in bundle.iter().zip(&records) {
                let start = heads.len();
                heads.extend_from_slice(record.get(..HEAD_BYTES).unwrap_or(record));
                let told = |error| self.told(basket, error);
                let copied = self.moved(basket, (record, &mut heads[start..]), seek).map_err(told)?;
                let digest = if self.digests { digest_of(record) } else { 0 };
                places[basket.branch][basket.basket] = Copied { digest, ..copied };
                seek += record.len() as u64;
            }
            let bytes = seek - output.end();
            let mut parts = Vec::with_capacity(2 * records.len());
            for (head, record) in heads.chunks(HEAD_BYTES).zip(&records) {
                parts.push(IoSlice::new(head));
                parts.push(IoSlice::new(record.get(HEAD_BYTES..).unwrap_or_default()));
            }
            output.write_all_of(&mut parts)?;
            copied(bytes)
        })?;
        Ok(places)
    }

    /// Passes over baskets that are there already, one branch after the other. None if they are not those of this tree.
    pub(crate) fn pass(&self, there: &[Copied], output: &mut Output) -> Result<Option<Places>> {
        let mut rest = there;
        let mut places = self.no_places();
        for branch in &mut places {
            let Some((own, after)) = rest.split_at_checked(branch.len()) else { return Ok(None) };
            branch.copy_from_slice(own);
            rest = after;
        }
        let bytes = there.iter().fold(0u64, |sum, basket| sum.saturating_add(basket.size));
        let region = output.end()..output.end().saturating_add(bytes);
        let is_inside = |one: &Copied| one.size == 0 || region.contains(&one.seek);
        if !rest.is_empty() || !there.iter().all(is_inside) {
            return Ok(None);
        }
        if self.digests && there.iter().any(|one| one.size > 0 && one.digest == 0) {
            self.note_digests(&mut places)?;
        }
        output.pass(bytes)?;
        Ok(Some(places))
    }

    /// Reads baskets that are to be told from others, which nobody wanted when they were copied.
    fn note_digests(&self, places: &mut Places) -> Result<()> {
        self.for_bundles(|bundle, records| {
            for (basket, record) in bundle.iter().zip(&records) {
                places[basket.branch][basket.basket].digest = digest_of(record);
            }
            Ok(())
        })
    }

    /// Room for where the baskets of each branch will lie.
    pub(crate) fn no_places(&self) -> Places {
        self.tree.branches.iter().map(|branch| vec![Copied::default(); branch.baskets.len()]).collect()
    }

    /// Reads all baskets in the order in which they are to lie, by bundles of a bounded size.
    pub(crate) fn for_bundles(&self, mut visit: impl FnMut(&[Wanted], Vec<Bytes>) -> Result<()>) -> Result<()> {
        let baskets = self.in_order();
        let bundles = self.bundles(&baskets, self.bundle_bytes);
        // What is read in the order of the file comes as fast in small pieces, which stay in the processor's cache until
        // they are written: reading in another thread would only move them to another processor's.
        if self.file.is_near() && bundles.iter().all(|bundle| lie_in_order(bundle)) {
            let pieces = self.bundles(&baskets, self.bundle_bytes.min(limits::COPIED_PIECE_BYTES));
            return pieces.into_iter().try_for_each(|piece| visit(piece, self.read(piece)?));
        }
        if bundles.len() < 2 || self.file.whole_bytes() > 0 {
            return bundles.into_iter().try_for_each(|bundle| visit(bundle, self.read(bundle)?));
        }
        // The next bundle is read while one is written.
        std::thread::scope(|scope| {
            let (sender, receiver) = bounded(1);
            scope.spawn(move || {
                for bundle in bundles {
                    let records = self.read(bundle);
                    let is_last = records.is_err();
                    if sender.send((bundle, records)).is_err() || is_last {
                        return;
                    }
                }
            });
            receiver.into_iter().try_for_each(|(bundle, records)| visit(bundle, records?))
        })
    }

    fn in_order(&self) -> Vec<Wanted> {
        let mut baskets = Vec::new();
        for (branch, about) in self.tree.branches.iter().enumerate() {
            for (basket, one) in about.baskets.iter().enumerate() {
                let (entry_start, entries_count) = (one.entry_start, one.entry_stop - one.entry_start);
                let (seek, size, embedded) = match &one.place {
                    Place::File { seek, size } => (*seek, *size, None),
                    // It lies behind all others, with the tree.
                    Place::Embedded(embedded) => (u64::MAX, 0, Some(Arc::clone(embedded))),
                };
                baskets.push(Wanted { branch, basket, entry_start, entries_count, seek, size, embedded });
            }
        }
        match self.order {
            Order::Offset => baskets.sort_by_key(|basket| basket.seek),
            Order::Branch => {}
            Order::Entry => baskets.sort_by_key(|basket| (basket.entry_start, basket.branch)),
        }
        baskets
    }

    /// Baskets that are read together.
    fn bundles<'b>(&self, baskets: &'b [Wanted], bundle_bytes: u64) -> Vec<&'b [Wanted]> {
        let mut bundles = Vec::new();
        let mut rest = baskets;
        while !rest.is_empty() {
            let mut bytes = 0u64;
            let bundle = rest.iter().take_while(|basket| {
                let is_first = bytes == 0;
                bytes = bytes.saturating_add(basket.size);
                is_first || bytes <= bundle_bytes
            });
            let (bundle, after) = rest.split_at(bundle.count().max(1));
            bundles.push(bundle);
            rest = after;
        }
        bundles
    }

    /// The records of these baskets.
    fn read(&self, baskets: &[Wanted]) -> Result<Vec<Bytes>> {
        let mut records: Vec<Option<Bytes>> =
            baskets.iter().map(|basket| self.at_hand(basket)).collect::<Result<_>>()?;
        let missing: Vec<usize> = (0..baskets.len()).filter(|index| records[*index].is_none()).collect();
        let wanted: Vec<ByteRange> =
            missing.iter().map(|index| ByteRange::new(baskets[*index].seek, baskets[*index].size)).collect();
        if !wanted.is_empty() {
            let plan = coalesce(&wanted, self.file.gap_bytes(), MAX_JOINED_BYTES);
            let mut reads: Vec<RangeRead> = plan.ranges.iter().map(|range| read_buffers::read_of(*range)).collect();
            self.file.read_ranges(&mut reads)?;
            let joined: Vec<Bytes> = reads.into_iter().map(|read| read_buffers::share(read, None)).collect();
            for (index, place) in missing.into_iter().zip(&plan.placements) {
                let start = place.offset as usize;
                records[index] = Some(joined[place.range].slice(start..start + place.length as usize));
            }
        }
        Ok(records.into_iter().flatten().collect())
    }

    /// The record of a basket that needs not be read.
    fn at_hand(&self, basket: &Wanted) -> Result<Option<Bytes>> {
        let Some(embedded) = &basket.embedded else { return Ok(self.file.held(basket.seek, basket.size)) };
        let branch = &self.tree.branches[basket.branch];
        let may_refer = branch.element.is_some() && kind_of(branch, self.file.classes()).may_refer();
        let record = embedded_record(embedded, &branch.name, &self.tree.name, may_refer);
        record.map(|record| Some(Bytes::from(record))).map_err(|error| self.told(basket, error))
    }

    /// Says in the record of a basket where it lies now, and notes it.
    pub(crate) fn place(&self, basket: &Wanted, record: &mut [u8], seek: u64, places: &mut Places) -> Result<()> {
        let mut head = record.get(..HEAD_BYTES).unwrap_or(record).to_vec();
        let copied = self.moved(basket, (record, &mut head), seek).map_err(|error| self.told(basket, error))?;
        record[..head.len()].copy_from_slice(&head);
        places[basket.branch][basket.basket] = Copied { digest: digest_of(record), ..copied };
        Ok(())
    }

    /// Checks that a record is the basket that the tree says, and says in a copy of its head where it lies now.
    fn moved(
        &self,
        basket: &Wanted,
        (record, new_head): (&[u8], &mut [u8]),
        seek: u64,
    ) -> std::result::Result<Copied, FormatError> {
        let (key, head) = read_basket_head(&mut Cursor::new(record))?;
        let size = record.len() as u64;
        if key.size != size || head.entries_count as u64 != basket.entries_count {
            let message = format!(
                "a record of {} bytes with {} entries lies at {}, where the tree has {size} bytes with {}",
                key.size, head.entries_count, basket.seek, basket.entries_count
            );
            return Err(FormatError::damaged(basket.seek, message));
        }
        let (seek_directory, process_ids_before) = (self.seek_directory, self.process_ids_before);
        move_record(new_head, NewPlace { seek, seek_directory, process_ids_before })?;
        Ok(Copied { seek, size, plain_size: key.key_size + key.object_size, digest: 0 })
    }

    /// An error of a basket.
    pub(crate) fn told(&self, basket: &Wanted, error: FormatError) -> ReadError {
        let branch = &self.tree.branches[basket.branch].path;
        let name = format!("tree {}: branch {branch}: basket {}", self.tree.name, basket.basket);
        ReadError::from_format(self.file.path(), &error.in_object(name))
    }
}

/// Whether those that are in the file lie in it in this order.
fn lie_in_order(baskets: &[Wanted]) -> bool {
    baskets.iter().filter(|basket| basket.embedded.is_none()).is_sorted_by_key(|basket| basket.seek)
}

/// Bytes of a record in which it says where it lies.
const HEAD_BYTES: usize = 34;
/// Bytes of a key in front of what says where it lies.
const PLACE_AT: usize = 18;

/// Tells records apart that differ in more than where they lie.
pub(crate) fn digest_of(record: &[u8]) -> u64 {
    let is_large = record.get(4..6).is_some_and(|version| version >= &1001u16.to_be_bytes()[..]);
    let place_bytes = if is_large { 16 } else { 8 };
    let head = record.get(..PLACE_AT).unwrap_or(record);
    let rest = record.get(PLACE_AT + place_bytes..).unwrap_or_default();
    xxh3_64(rest) ^ xxh3_64(head).rotate_left(1)
}
