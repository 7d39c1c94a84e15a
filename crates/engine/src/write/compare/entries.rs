//! Whether branches whose baskets differ hold the same entries all the same: by the bytes of each entry, as they are
//! wherever it lies.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use branchline_format::basket::BasketRecord;
use branchline_format::error::FormatError;
use branchline_format::layout::{kind_of, Kind};
use branchline_format::write::{BasketTools, Entries};
use branchline_storage::Access;
use xxhash_rust::xxh3::Xxh3;

use crate::error::Result;
use crate::file::File;
use crate::limits;
use crate::write::baskets::copy::{Copying, Wanted};
use crate::write::baskets::counting::Counting;
use crate::write::merge::input::{Content, Input};
use crate::write::merge::{Branches, Order};
use crate::write::products::tree::input::{KnownTrees, TreeInput, Uneven};

/// What tells the entries of each branch from others; none of a branch whose entries are not told apart.
#[derive(Default)]
pub(crate) struct EntryDigests {
    all: HashMap<String, Option<Xxh3>>,
    tools: BasketTools,
}

impl EntryDigests {
    /// Of these branches of a tree of some files, one behind the other.
    pub(crate) fn of(
        paths: &[String],
        (tree, branches): (&str, &HashSet<String>),
        access: &Access,
        go_on: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Self> {
        let mut digests = Self::default();
        let wanted = Branches::from([(tree.to_string(), branches.clone())]);
        for path in paths {
            let input =
                Input::open(path, Some(tree), (&wanted, &KnownTrees::new(Uneven::CompletedIfPossible)), access)?;
            let file = Arc::clone(&input.file);
            for item in input.items {
                match item.content {
                    Content::Tree(of_tree) if item.path == tree => digests.add(&file, &of_tree, branches, go_on)?,
                    _ => {}
                }
            }
        }
        Ok(digests)
    }

    /// Whether the entries of a branch are those of another.
    pub(crate) fn are_same(&self, other: &Self, branch: &str) -> bool {
        let of = |digests: &Self| digests.all.get(branch).cloned().flatten().map(|digest| digest.digest128());
        of(self).is_some_and(|digest| of(other) == Some(digest))
    }

    fn add(
        &mut self,
        file: &File,
        input: &TreeInput,
        wanted: &HashSet<String>,
        go_on: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let tree = &input.tree;
        let mut counting = Counting::new(file, tree);
        let kinds: Vec<Kind> = tree.branches.iter().map(|branch| kind_of(branch, file.classes())).collect();
        let reading = Copying {
            file,
            tree,
            order: Order::Branch,
            seek_directory: 0,
            process_ids_before: 0,
            bundle_bytes: limits::COPIED_AT_ONCE_BYTES,
            digests: false,
        };
        reading.for_bundles(|bundle, records| {
            for (basket, record) in bundle.iter().zip(records) {
                let path = &tree.branches[basket.branch].path;
                if !wanted.contains(path) {
                    continue;
                }
                let mut digest = self.all.entry(path.clone()).or_insert_with(|| Some(Xxh3::new())).take();
                if let Some(known) = &mut digest {
                    if self.add_basket(&mut counting, &kinds[basket.branch], (basket, &record), known).is_err() {
                        digest = None;
                    }
                }
                self.all.insert(path.clone(), digest);
            }
            go_on()
        })
    }

    /// Adds the entries of a basket. Whatever is wrong with it is told by who reads values.
    fn add_basket(
        &mut self,
        counting: &mut Counting<'_>,
        kind: &Kind,
        (basket, record): (&Wanted, &[u8]),
        digest: &mut Xxh3,
    ) -> std::result::Result<(), FormatError> {
        let parsed = BasketRecord::parse(record, basket.entries_count)?;
        let counts = if parsed.stores_bounds() {
            None
        } else {
            let counts = counting.counts_for(kind, basket.entries());
            counts.map_err(|error| FormatError::unsupported(error.message))?
        };
        let bytes = self.tools.decompress(&parsed)?;
        let entries = Entries::of(&parsed.plain(bytes), kind, counts.as_deref(), 0)?;
        entries.for_each(basket.entries_count as usize, |entry| {
            digest.update(&(entry.len() as u64).to_be_bytes());
            digest.update(entry);
        })
    }
}
