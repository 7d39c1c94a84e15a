//! Compares the entries of branches whose baskets differ. The bytes of each entry are compared, because they do not
//! depend on where the entry is stored.

use std::collections::{HashMap, HashSet};

use branchline_format::basket::BasketRecord;
use branchline_format::error::FormatError;
use branchline_format::layout::Kind;
use branchline_format::tree::kind_of;
use branchline_format::write::{BasketTools, Entries};
use xxhash_rust::xxh3::Xxh3;

use crate::error::Result;
use crate::file::File;
use crate::limits;
use crate::write::baskets::bundles::{BasketReader, InputBasket};
use crate::write::baskets::counting::Counting;
use crate::write::compare::files::ComparedFiles;
use crate::write::merge::input::{Input, Wanted};
use crate::write::products::list::AnyContent;
use crate::write::products::tree_input::input::{KnownTrees, TreeInput, UnevenBranches};
use crate::write::progress::Check;
use crate::write::request::{Branches, Order};

/// Digests of the entries of each branch. None for a branch whose entries cannot be separated from each other.
#[derive(Default)]
pub(crate) struct EntryDigests {
    all: HashMap<String, Option<Xxh3>>,
    tools: BasketTools,
}

impl EntryDigests {
    /// Computes the digests of these branches of a tree.
    pub(crate) fn of(of: ComparedFiles<'_>, branches: &HashSet<String>, check: &mut Check<'_>) -> Result<Self> {
        let ComparedFiles { files, tree, access, unions } = of;
        let mut digests = Self::default();
        let of_tree = Branches::from([(tree.to_string(), branches.clone())]);
        let wanted = Wanted { tree: Some(tree), branches: &of_tree, access };
        for path in files {
            let known_trees = KnownTrees::with_unions(UnevenBranches::FilledIfPossible, unions.clone());
            let input = Input::open(path, wanted, &known_trees)?;
            for item in input.items.into_iter().filter(|item| item.entry.path == tree) {
                if let AnyContent::Tree(content) = item.content {
                    digests.add(&input.file, &content, branches, check)?;
                }
            }
        }
        Ok(digests)
    }

    /// Whether the entries of a branch are the same on both sides.
    pub(crate) fn are_same(&self, other: &Self, branch: &str) -> bool {
        let of = |digests: &Self| digests.all.get(branch).cloned().flatten().map(|digest| digest.digest128());
        of(self).is_some_and(|digest| of(other) == Some(digest))
    }

    fn add(&mut self, file: &File, input: &TreeInput, wanted: &HashSet<String>, check: &mut Check<'_>) -> Result<()> {
        let tree = &input.tree;
        let mut counting = Counting::new(file, tree);
        let kinds: Vec<Kind> = tree.branches.iter().map(|branch| kind_of(branch, file.classes())).collect();
        let bundle_bytes = limits::COPIED_AT_ONCE_BYTES;
        let reader = BasketReader { file, tree, order: Order::Branch, bundle_bytes };
        reader.for_bundles(|bundle, records| {
            for (basket, record) in bundle.iter().zip(records) {
                let path = &tree.branches[basket.branch].path;
                if !wanted.contains(path) {
                    continue;
                }
                let mut digest = self.all.entry(path.clone()).or_insert_with(|| Some(Xxh3::new())).take();
                if let Some(known) = &mut digest
                    && self.add_basket(&mut counting, &kinds[basket.branch], basket, &record, known).is_err()
                {
                    digest = None;
                }
                self.all.insert(path.clone(), digest);
            }
            check()
        })
    }

    /// Adds the entries of a basket to the digest of its branch. If this fails, the branch has no digest, and the
    /// caller compares values instead.
    fn add_basket(
        &mut self,
        counting: &mut Counting<'_>,
        kind: &Kind,
        basket: &InputBasket,
        record: &[u8],
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
