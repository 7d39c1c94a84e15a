//! Provides element counts for baskets that do not store where their entries begin. The counts are in another branch.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use branchline_format::basket::decode::{decode, Counts};
use branchline_format::basket::{BasketRecord, Plain};
use branchline_format::column::Column;
use branchline_format::error::FormatError;
use branchline_format::layout::{Kind, Layout};
use branchline_format::tree::kind_of;
use branchline_format::tree::{Place, TTree};
use branchline_format::write::BasketTools;
use branchline_storage::ByteRange;

use crate::error::{ReadError, Result};
use crate::file::File;
use crate::write::ranges::read_ranges;

/// Maximum number of count branches in a chain: a count branch may have a count branch, which must not have another
/// one.
const DEPTH_MAX: u32 = 2;

/// Returns the index of the count branch for a branch of this kind, if it has one.
pub(crate) fn counter_of(kind: &Kind) -> Option<usize> {
    match kind {
        Kind::Data(Layout::Run { count, .. }) => *count,
        Kind::Data(Layout::Arrays { count, .. }) => Some(*count),
        Kind::Data(Layout::Objects(program)) => program.count(),
        _ => None,
    }
}

/// Reads the count branches of other branches.
pub(crate) struct Counting<'a> {
    file: &'a File,
    tree: &'a TTree,
    tools: BasketTools,
    /// The counts that were last read from each count branch, with their entry range.
    last: HashMap<usize, (Range<u64>, Arc<Counts>)>,
}

impl<'a> Counting<'a> {
    /// Creates a reader of the count branches in a tree.
    pub(crate) fn new(file: &'a File, tree: &'a TTree) -> Self {
        Self { file, tree, tools: BasketTools::new(), last: HashMap::new() }
    }

    /// Returns the counts of these entries for a branch of this kind. Returns None if the branch has no count branch.
    pub(crate) fn counts_for(&mut self, kind: &Kind, entries: Range<u64>) -> Result<Option<Arc<Counts>>> {
        counter_of(kind).map(|count| self.counts_in(count, entries, DEPTH_MAX)).transpose()
    }

    /// Returns the counts that a count branch holds for these entries.
    pub(crate) fn counts_of(&mut self, branch: usize, entries: Range<u64>) -> Result<Arc<Counts>> {
        self.counts_in(branch, entries, DEPTH_MAX)
    }

    fn counts_in(&mut self, branch: usize, entries: Range<u64>, depth: u32) -> Result<Arc<Counts>> {
        if let Some((_, counts)) = self.last.get(&branch).filter(|(known, _)| *known == entries) {
            return Ok(Arc::clone(counts));
        }
        let counter = self.tree.branches.get(branch).filter(|_| depth > 0);
        let (file, tree) = (self.file, self.tree);
        let named = |error: FormatError| {
            let path = tree.branches.get(branch).map_or("", |branch| &branch.path);
            ReadError::from_format(file.path(), &error.in_object(format!("tree {}: branch {path}", tree.name)))
        };
        let wrong = || {
            named(FormatError::unsupported("it should hold the element counts of other branches, but has no counts"))
        };
        let counter = counter.ok_or_else(wrong)?;
        let Kind::Data(layout) = kind_of(counter, self.file.classes()) else { return Err(wrong()) };
        let mut column = Column::empty(&layout);
        for basket in
            counter.baskets.iter().filter(|one| one.entry_stop > entries.start && one.entry_start < entries.end)
        {
            let of_basket = basket.entry_start..basket.entry_stop;
            let counts = match &layout {
                Layout::Run { count: Some(count), .. } => Some(self.counts_in(*count, of_basket, depth - 1)?),
                _ => None,
            };
            let wanted = entries.start.max(basket.entry_start)..entries.end.min(basket.entry_stop);
            let local = (wanted.start - basket.entry_start) as usize..(wanted.end - basket.entry_start) as usize;
            let part = match &basket.place {
                Place::Embedded(embedded) => decode(&layout, &Plain::embedded(embedded), local, counts.as_deref()),
                Place::File { seek, size } => {
                    let record = read_ranges(file, &[ByteRange::new(*seek, *size)])?.pop().unwrap_or_default();
                    BasketRecord::parse(&record, basket.entry_stop - basket.entry_start).and_then(|basket| {
                        let bytes = self.tools.decompress(&basket)?;
                        decode(&layout, &basket.plain(bytes), local, counts.as_deref())
                    })
                }
            };
            part.and_then(|part| column.append(part)).map_err(named)?;
        }
        let counts = Arc::new(Counts::of(&column).ok_or_else(wrong)?);
        self.last.insert(branch, (entries, Arc::clone(&counts)));
        Ok(counts)
    }
}
