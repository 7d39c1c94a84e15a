//! Reads the baskets of a tree in bundles of bounded size.

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
    /// The order in which baskets are read.
    pub(crate) order: Order,
    /// Number of bytes to read at a time.
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
    /// The content of the basket, if it is embedded in the record of the tree.
    embedded: Option<Arc<EmbeddedBasket>>,
}

impl InputBasket {
    /// The entry range of the basket in the tree.
    pub(crate) fn entries(&self) -> Range<u64> {
        self.first_entry..self.first_entry + self.entries_count
    }
}

impl<'a> BasketReader<'a> {
    /// Creates a reader that reads in file order, with bundles of the default size.
    pub(crate) fn in_file_order(file: &'a File, tree: &'a TTree) -> Self {
        Self { file, tree, order: Order::Offset, bundle_bytes: limits::COPIED_AT_ONCE_BYTES }
    }

    /// Returns empty locations for all baskets of each branch.
    pub(crate) fn no_places(&self) -> Places {
        self.tree.branches.iter().map(|branch| vec![Placed::default(); branch.baskets.len()]).collect()
    }

    /// Passes all baskets with their records to `visit`, in order and in bundles.
    pub(crate) fn for_bundles(&self, mut visit: impl FnMut(&[InputBasket], Vec<Bytes>) -> Result<()>) -> Result<()> {
        let baskets = self.in_order();
        let bundles = self.bundles(&baskets, self.bundle_bytes);
        // Small sequential reads are just as fast, and their bytes stay in the CPU cache until they are written.
        // Reading in another thread would only move the bytes to the cache of another core.
        if self.file.is_read_when_writing() && bundles.iter().all(|bundle| lie_in_order(bundle)) {
            let pieces = self.bundles(&baskets, self.bundle_bytes.min(limits::COPIED_PIECE_BYTES));
            return pieces.into_iter().try_for_each(|piece| visit(piece, self.read(piece)?));
        }
        if bundles.len() < 2 || self.file.whole_bytes() > 0 {
            return bundles.into_iter().try_for_each(|bundle| visit(bundle, self.read(bundle)?));
        }
        // Read the next bundle in a thread while the current one is written.
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
                    // Embedded baskets come last, because they are in the record of the tree. Generated baskets need
                    // memory only when they are written.
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

    /// Splits baskets into bundles. The baskets of a bundle are read together.
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

    /// Returns the records of these baskets.
    fn read(&self, baskets: &[InputBasket]) -> Result<Vec<Bytes>> {
        let in_file = baskets.iter().filter(|basket| basket.embedded.is_none());
        let ranges: Vec<ByteRange> = in_file.map(|basket| ByteRange::new(basket.seek, basket.size)).collect();
        let mut stored = read_ranges(self.file, &ranges)?.into_iter();
        let none_read = || ReadError::internal(self.file.path(), "fewer baskets were read than requested");
        let record = |basket: &InputBasket| match &basket.embedded {
            Some(embedded) => self.embedded(basket, embedded),
            None => stored.next().ok_or_else(none_read),
        };
        baskets.iter().map(record).collect()
    }

    /// Returns the record of an embedded or generated basket.
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

    /// Adds the name of a basket to an error message.
    pub(crate) fn error(&self, basket: &InputBasket, error: FormatError) -> ReadError {
        let branch = &self.tree.branches[basket.branch].path;
        let name = format!("tree {}: branch {branch}: basket {}", self.tree.name, basket.basket);
        ReadError::from_format(self.file.path(), &error.in_object(name))
    }
}

/// Whether the baskets that are stored in the file (not in the record of the tree) are in file order.
fn lie_in_order(baskets: &[InputBasket]) -> bool {
    baskets.iter().filter(|basket| basket.embedded.is_none()).is_sorted_by_key(|basket| basket.seek)
}
