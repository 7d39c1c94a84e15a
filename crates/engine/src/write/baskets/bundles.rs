//! The baskets of a tree, read in bundles of a bounded size.

use std::ops::Range;
use std::sync::Arc;

use branchline_format::basket::embedded::EmbeddedBasket;
use branchline_format::error::FormatError;
use branchline_format::tree::kind_of;
use branchline_format::tree::{Place, TTree};
use branchline_format::write::{embedded_record, BasketTools};
use branchline_storage::ByteRange;
use bytes::Bytes;
use crossbeam_channel::bounded;

use crate::error::{ReadError, Result};
use crate::file::File;
use crate::limits;
use crate::write::placed::{Placed, Places};
use crate::write::ranges::read_ranges;
use crate::write::request::Order;

/// Reads the baskets of a tree.
#[derive(Clone, Copy)]
pub(crate) struct BasketReader<'a> {
    pub(crate) file: &'a File,
    pub(crate) tree: &'a TTree,
    /// The order in which they are read.
    pub(crate) order: Order,
    /// Bytes that are read at a time.
    pub(crate) bundle_bytes: u64,
}

/// A basket of an input.
#[derive(Debug, Clone)]
pub(crate) struct InputBasket {
    pub(crate) branch: usize,
    pub(crate) basket: usize,
    pub(crate) first_entry: u64,
    pub(crate) entries_count: u64,
    pub(crate) seek: u64,
    size: u64,
    /// Its contents, if they are stored in the record of the tree.
    embedded: Option<Arc<EmbeddedBasket>>,
}

impl InputBasket {
    /// Its entries in the tree.
    pub(crate) fn entries(&self) -> Range<u64> {
        self.first_entry..self.first_entry + self.entries_count
    }
}

impl<'a> BasketReader<'a> {
    /// Reads baskets in the order of the file, with the usual bundles.
    pub(crate) fn in_file_order(file: &'a File, tree: &'a TTree) -> Self {
        Self { file, tree, order: Order::Offset, bundle_bytes: limits::COPIED_AT_ONCE_BYTES }
    }

    /// A place for each basket of each branch, not filled in.
    pub(crate) fn no_places(&self) -> Places {
        self.tree.branches.iter().map(|branch| vec![Placed::default(); branch.baskets.len()]).collect()
    }

    /// Gives all baskets and their records to `visit`, in the wanted order.
    pub(crate) fn for_bundles(&self, mut visit: impl FnMut(&[InputBasket], Vec<Bytes>) -> Result<()>) -> Result<()> {
        let baskets = self.in_order();
        let bundles = self.bundles(&baskets, self.bundle_bytes);
        // What is read in the order of the file comes as fast in small pieces, which stay in the processor's cache
        // until they are written: reading in another thread would only move them to another processor's.
        if self.file.is_read_when_writing() && bundles.iter().all(|bundle| lie_in_order(bundle)) {
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

    fn in_order(&self) -> Vec<InputBasket> {
        let mut baskets = Vec::new();
        for (number, branch) in self.tree.branches.iter().enumerate() {
            for (basket, one) in branch.baskets.iter().enumerate() {
                let (first_entry, entries_count) = (one.entry_start, one.entry_stop - one.entry_start);
                let (seek, size, embedded) = match &one.place {
                    Place::File { seek, size } => (*seek, *size, None),
                    // It comes last, with the record of the tree. What is made takes memory only now.
                    Place::Embedded(embedded) => {
                        let made_bytes = embedded.made_with.map_or(0, |_| embedded.data.len() as u64);
                        (u64::MAX, made_bytes, Some(Arc::clone(embedded)))
                    }
                };
                baskets.push(InputBasket { branch: number, basket, first_entry, entries_count, seek, size, embedded });
            }
        }
        match self.order {
            Order::Offset => baskets.sort_by_key(|basket| basket.seek),
            Order::Branch => {}
            Order::Entry => baskets.sort_by_key(|basket| (basket.first_entry, basket.branch)),
        }
        baskets
    }

    /// Baskets that are read together.
    fn bundles<'b>(&self, baskets: &'b [InputBasket], bundle_bytes: u64) -> Vec<&'b [InputBasket]> {
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
    fn read(&self, baskets: &[InputBasket]) -> Result<Vec<Bytes>> {
        let in_file = baskets.iter().filter(|basket| basket.embedded.is_none());
        let ranges: Vec<ByteRange> = in_file.map(|basket| ByteRange::new(basket.seek, basket.size)).collect();
        let mut stored = read_ranges(self.file, &ranges)?.into_iter();
        let none_read = || ReadError::internal(self.file.path(), "fewer baskets were read than asked for");
        let record = |basket: &InputBasket| match &basket.embedded {
            Some(embedded) => self.embedded(basket, embedded),
            None => stored.next().ok_or_else(none_read),
        };
        baskets.iter().map(record).collect()
    }

    /// The record of a basket that lies in the tree's record, or was made.
    fn embedded(&self, basket: &InputBasket, embedded: &EmbeddedBasket) -> Result<Bytes> {
        let branch = &self.tree.branches[basket.branch];
        let is_read = embedded.made_with.is_none();
        let may_refer = is_read && branch.element.is_some() && kind_of(branch, self.file.classes()).may_refer();
        let record = embedded_record(embedded, &branch.name, &self.tree.name, may_refer);
        let record = record.and_then(|record| match embedded.made_with {
            Some(setting) => BasketTools::new().recompress(&record, basket.entries_count, setting),
            None => Ok(record),
        });
        record.map(Bytes::from).map_err(|error| self.error(basket, error))
    }

    /// An error of a basket.
    pub(crate) fn error(&self, basket: &InputBasket, error: FormatError) -> ReadError {
        let branch = &self.tree.branches[basket.branch].path;
        let name = format!("tree {}: branch {branch}: basket {}", self.tree.name, basket.basket);
        ReadError::from_format(self.file.path(), &error.in_object(name))
    }
}

/// Whether those that are in the file lie in it in this order.
fn lie_in_order(baskets: &[InputBasket]) -> bool {
    baskets.iter().filter(|basket| basket.embedded.is_none()).is_sorted_by_key(|basket| basket.seek)
}
