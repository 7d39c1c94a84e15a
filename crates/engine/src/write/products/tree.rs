//! Merges the TTrees at one path. Their baskets are copied or rewritten, and the record of the first tree is written
//! with the totals of all trees.

mod same_branches;
pub(crate) mod totals;

use std::sync::atomic::Ordering;

use branchline_format::file::directory::Entry;
use branchline_format::file::TKey;
use branchline_format::write::Recording;
use xxhash_rust::xxh3::Xxh3;

use crate::error::{ReadError, Result};
use crate::file::File;
use crate::write::baskets::bundles::BasketReader;
use crate::write::baskets::copy::BasketCopy;
use crate::write::baskets::digest::digest_of;
use crate::write::baskets::forms::forms;
use crate::write::baskets::rewrite::{RewritePlan, Rewriter};
use crate::write::baskets::slices::RewrittenTree;
use crate::write::errors::{differs, other_leftovers, unmergeable};
use crate::write::merged::Merged;
use crate::write::new_file::{ObjectName, SlotId};
use crate::write::output::Output;
use crate::write::placed::Places;
use crate::write::products::holdings::{Holdings, Row};
use crate::write::products::kind::{Content, Opening, Product, Remarks};
use crate::write::products::output::{MergeOutput, Transfer};
use crate::write::products::source::Source;
use crate::write::products::tree::same_branches::{check_same, TreeOfFile};
use crate::write::products::tree::totals::Totals;
use crate::write::products::tree_input::input::TreeInput;
use crate::write::progress::Check;
use crate::write::request::{BasketLayout, Branches};

/// Maximum number of entries in a tree (TTree::fEntries).
const ENTRIES_MAX: u64 = i64::MAX as u64;

/// A TTree in an output.
pub(crate) struct MergedTree {
    slot: SlotId,
    totals: Totals,
}

impl MergedTree {
    /// Gives the tree a new name.
    pub(crate) fn rename(&mut self, name: &str) {
        self.totals.name = Some(name.to_string());
    }
}

impl Content for TreeInput {
    fn is_of(file: &File, key: &TKey) -> bool {
        file.is_tree(key)
    }

    fn keeps_cycles(_file: &File, _key: &TKey) -> bool {
        false
    }

    fn open(opening: &mut Opening<'_, '_>, entry: &Entry) -> Result<Self> {
        let key = &entry.key;
        let plain = opening.reader.object(key)?;
        let source = Source { file: opening.file, entry };
        Self::new(&source, plain, opening.branches.get(&entry.path), opening.known_trees)
    }

    fn size_bytes(&self, _key: &TKey) -> u64 {
        self.output_bytes()
    }

    fn memory_bytes(&self) -> u64 {
        self.held_bytes()
    }

    fn hash(&self, digest: &mut Xxh3) {
        digest.update(&self.plain);
        // The union of the branches affects how this tree is merged.
        digest.update(&self.union.as_ref().map_or(0, |union| union.digest).to_be_bytes());
    }

    fn remarks(&self) -> Remarks {
        Remarks { left_out: None, note: self.note.clone() }
    }

    fn hold(self, source: &Source<'_>, _older: bool, holdings: &mut Holdings, check: &mut Check<'_>) -> Result<()> {
        let table = holdings.tree(source.path());
        table.is_ttree = true;
        let first = table.entries_count;
        let row = |basket: &branchline_format::tree::Basket| Row {
            entry_start: first + basket.entry_start,
            entries_count: basket.entry_stop - basket.entry_start,
            digest: 0,
        };
        let branches = &self.tree.branches;
        let mut rows: Vec<Vec<Row>> = branches.iter().map(|branch| branch.baskets.iter().map(row).collect()).collect();
        BasketReader::in_file_order(source.file, &self.tree).for_bundles(|bundle, records| {
            for (basket, record) in bundle.iter().zip(records) {
                rows[basket.branch][basket.basket].digest = digest_of(&record);
            }
            check()
        })?;
        for (branch, rows) in branches.iter().zip(rows) {
            table.branches.entry(branch.path.clone()).or_default().extend(rows);
        }
        let filled = self.filled.iter().map(|branch| (branches[*branch].path.as_str(), self.tree.entries_count));
        table.filled.add(filled);
        table.entries_count += self.tree.entries_count;
        Ok(())
    }
}

impl Product for MergedTree {
    type Content = TreeInput;
    type Written = Places;

    const HAS_VERSIONS: bool = false;

    /// Prepares the record of the first tree at a path, because this record is written at the end of the merge.
    fn prepare(content: &mut TreeInput, source: &Source<'_>, branches: &Branches) -> Result<()> {
        content.take_apart(source, branches.get(source.path()))
    }

    /// Matches branches by name, as hadd does. Reorders the branches if necessary, and returns an error if they differ.
    fn fit(&self, content: &mut TreeInput, source: &Source<'_>) -> Result<()> {
        let (before, own) = (self.totals.entries_count(), content.tree.entries_count);
        if before.saturating_add(own) > ENTRIES_MAX {
            let message = format!("tree {}: {own} entries after {before} exceed the limit of ROOT", source.path());
            return Err(unmergeable(source.file_path(), message));
        }
        if content.is_reordered(&self.totals.first) {
            let numbers = self.totals.owner_numbers()?;
            content.reorder(&self.totals.first, &numbers, source)?;
        }
        let first = TreeOfFile { file: &self.totals.first_path, tree: &self.totals.first };
        check_same(&first, &TreeOfFile { file: source.file_path(), tree: content })
    }

    /// Writes the baskets. If entries are rewritten, the rewriter keeps the locations of the new baskets.
    fn write(
        _known: Option<&Self>,
        content: &TreeInput,
        source: &Source<'_>,
        output: &mut MergeOutput,
        transfer: &mut Transfer<'_, '_>,
    ) -> Result<Places> {
        if let Some(layout) = transfer.request.layout_of(source.path()) {
            rewrite(content, source, layout, output, transfer)?;
            return Ok(Places::new());
        }
        let reader = BasketReader {
            file: source.file,
            tree: &content.tree,
            order: transfer.request.order,
            bundle_bytes: transfer.request.limits.bundle_bytes(),
        };
        let copy = BasketCopy {
            reader,
            seek_directory: output.file.seek_of(source.directory(output)),
            process_ids_before: transfer.process_ids_before,
            digests: transfer.request.verifies,
        };
        output.settle()?;
        copy_baskets(&copy, output, transfer)
    }

    fn begin(content: TreeInput, places: Places, source: &Source<'_>, output: &mut MergeOutput) -> Result<Self> {
        let mut totals = Totals::new(content, source, output.codec);
        totals.add_first(&places);
        Ok(Self { slot: output.file.reserve(source.directory(output)), totals })
    }

    fn add(&mut self, mut content: TreeInput, places: Places, _: &Source<'_>, _: &mut MergeOutput) -> Result<()> {
        self.totals.add(&mut content, &places);
        Ok(())
    }

    fn finish(&mut self, path: &str, name: &ObjectName, output: &mut MergeOutput, merged: &mut Merged) -> Result<()> {
        let Self { slot, totals } = self;
        if let Some(rewriter) = output.rewriters.remove(path) {
            totals.take(rewriter.finish(output.file.output(), &mut |_| Ok(()))?);
        }
        output.file.write_object(*slot, name, |key_size| totals.record(key_size))?;
        let (baskets_count, basket_bytes) = totals.baskets();
        merged.add_tree(totals.entries_count(), baskets_count, basket_bytes);
        merged.filled.extend(totals.filled(path));
        merged.left_out.extend(totals.left_out());
        Ok(())
    }

    fn verify(&self, path: &str, found: Option<&TreeInput>, file: &File, check: &mut Check<'_>) -> Result<()> {
        let (totals, differs) = (&self.totals, |message: String| Err(differs(file.path(), &message)));
        let Some(TreeInput { tree, .. }) = found else { return differs(format!("tree {path} is missing")) };
        if tree.entries_count != totals.entries_count() {
            let (found, expected) = (tree.entries_count, totals.entries_count());
            return differs(format!("tree {} has {found} entries, not {expected}", tree.name));
        }
        let (count, expected) = (tree.branches.len(), totals.written().count());
        if count != expected {
            return differs(format!("tree {} has {count} branches, not {expected}", tree.name));
        }
        for (branch, expected) in tree.branches.iter().zip(totals.written()) {
            let firsts = branch.baskets.iter().map(|basket| basket.entry_start);
            if branch.path != expected.name || !firsts.eq(expected.baskets.iter().map(|basket| basket.first_entry)) {
                return differs(format!("branch {} of tree {} has different baskets", branch.path, tree.name));
            }
        }
        let expected: Vec<_> = totals.written().map(|branch| branch.baskets).collect();
        BasketReader::in_file_order(file, tree).for_bundles(|bundle, records| {
            for (basket, record) in bundle.iter().zip(records) {
                let place = expected[basket.branch].get(basket.basket);
                if place.map(|place| place.digest) != Some(digest_of(&record)) {
                    let branch = &tree.branches[basket.branch].path;
                    return differs(format!(
                        "basket {} of branch {branch} of tree {} differs",
                        basket.basket, tree.name
                    ));
                }
            }
            check()
        })
    }
}

/// Copies the baskets of a tree, unless a killed merge already wrote them.
fn copy_baskets(copy: &BasketCopy<'_>, output: &mut MergeOutput, transfer: &mut Transfer<'_, '_>) -> Result<Places> {
    let output = output.file.output();
    let before = output.end();
    let places = match (&mut transfer.written_before, &mut transfer.recompressor) {
        (Some(written), _) => {
            let places = copy.skip_written(&written.next().unwrap_or_default(), output)?;
            (transfer.progress)(output.end() - before)?;
            places.ok_or_else(|| other_leftovers(output.path()))?
        }
        (None, Some(recompressor)) => recompressor.add(copy, output, transfer.progress)?,
        (None, None) => copy.run(output, transfer.progress)?,
    };
    transfer.placed.push(places.iter().flatten().copied().collect());
    Ok(places)
}

/// Rewrites the entries of a tree into new baskets. The baskets of the last cluster are written later.
fn rewrite(
    content: &TreeInput,
    source: &Source<'_>,
    layout: BasketLayout,
    output: &mut MergeOutput,
    transfer: &mut Transfer<'_, '_>,
) -> Result<()> {
    let (path, request) = (source.path(), transfer.request);
    let selection = request.selection_of(source.file_path(), path, content.tree.entries_count)?;
    let rewriter = match output.rewriters.remove(path) {
        Some(rewriter) => rewriter,
        None => {
            let (key, file) = (source.key(), source.file);
            let recording = Recording::of_tree(&content.plain, content.key_size, &key.class_name, file.class_infos())
                .map_err(|error| ReadError::from_format(file.path(), &error.in_object(path)))?;
            let forms = forms(&content.tree, &recording, request.codec, file.header().compress, file.classes());
            let plan = RewritePlan {
                layout,
                order: request.order,
                memory_bytes: request.limits.memory_bytes,
                forms,
                seek_directory: output.file.seek_of(source.directory(output)),
                date: key.date,
                written_before: transfer.checkpoints.clusters_of(transfer.volume, path),
            };
            Rewriter::new(&content.tree, plan)
        }
    };
    let tree = RewrittenTree {
        file: source.file,
        tree: &content.tree,
        auto_flush: content.facts.auto_flush,
        process_ids_before: transfer.process_ids_before,
        selection,
    };
    output.settle()?;
    // Until the whole input is written, the output is torn, because entries cannot be removed from the rewriter.
    output.is_torn = true;
    let rewriter = output.rewriters.entry(path.to_string()).or_insert(rewriter);
    let Transfer { progress, checkpoints, volume, bytes_done, .. } = transfer;
    let mut checkpoint = |clusters, output: &mut Output| {
        checkpoints.add_clusters(*volume, path, clusters, bytes_done.load(Ordering::Relaxed), output)
    };
    rewriter.add(&tree, output.file.output(), *progress, &mut checkpoint)
}
