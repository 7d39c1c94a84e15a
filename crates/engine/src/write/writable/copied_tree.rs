//! Copies a tree or an RNTuple from another file in the same way as a merge, basket by basket or page by page.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;

use branchline_format::compress::Setting;
use branchline_format::file::directory::Entry;
use branchline_format::file::TKey;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::file::File;
use crate::write::baskets::recompress::Recompressor;
use crate::write::journal::checkpoints::Checkpoints;
use crate::write::merge::input::{Input, Item, Wanted};
use crate::write::merged::Merged;
use crate::write::new_file::ObjectName;
use crate::write::process_ids::ProcessIds;
use crate::write::products::list::AnyProduct;
use crate::write::products::output::{MergeOutput, Transfer};
use crate::write::products::source::Source;
use crate::write::products::tree_input::input::{KnownTrees, UnevenBranches};
use crate::write::request::{BasketLayout, MergeRequest};

/// The path, name and cycle of a copy.
pub(super) struct Target<'a> {
    pub(super) path: String,
    pub(super) name: &'a str,
    pub(super) cycle: i16,
}

/// A copy, with messages about parts that were not copied.
pub(super) struct Copied {
    pub(super) name: ObjectName,
    /// The process IDs that were written for the copy.
    pub(super) process_ids: Vec<ObjectName>,
    pub(super) left_out: Vec<String>,
}

/// Copies trees into an output.
pub(super) struct TreeCopier<'a> {
    pub(super) output: &'a mut MergeOutput,
    pub(super) process_ids: &'a mut ProcessIds,
    /// Called regularly between steps; an error aborts the copy.
    pub(super) check: &'a mut dyn FnMut() -> Result<()>,
}

impl TreeCopier<'_> {
    /// Copies a tree into an existing directory. If this fails, nothing of the copy remains.
    pub(super) fn copy(&mut self, source: &File, path: &str, target: &Target<'_>, setting: Setting) -> Result<Copied> {
        self.output.codec = Some(setting);
        let mut request = MergeRequest::of_copied_tree(self.output.file.path().into(), setting);
        match self.copy_or_go_back(source, path, target, &request) {
            // Objects with references can be copied entry by entry, even if their basket cannot be copied as a whole.
            Err(error) if error.kind == ReadErrorKind::Unsupported => {
                request.layout = Some(BasketLayout::default());
                self.copy_or_go_back(source, path, target, &request).map_err(|_| error)
            }
            copied => copied,
        }
    }

    /// Copies a tree according to `request`. If this fails, nothing of the copy remains.
    fn copy_or_go_back(
        &mut self,
        source: &File,
        path: &str,
        target: &Target<'_>,
        request: &MergeRequest,
    ) -> Result<Copied> {
        let wanted = Wanted { tree: Some(path), branches: &request.branches, access: source.access() };
        let mut input = Input::open(source.path(), wanted, &KnownTrees::new(UnevenBranches::Unchanged))?;
        let Some(item) = input.items.pop() else {
            return Err(ReadError::internal(source.path(), format!("{path} was found and not opened")));
        };
        let (mark, process_ids_count) = (self.output.file.mark(), self.process_ids.count());
        let copied = self.copy_item(&input, item, target, request).and_then(|copied| {
            input.check_unchanged()?;
            Ok(copied)
        });
        match copied {
            Ok(mut copied) => {
                copied.left_out.splice(0..0, input.left_out);
                copied.process_ids = self.process_ids.names_behind(process_ids_count).collect();
                Ok(copied)
            }
            Err(error) => {
                self.process_ids.truncate(process_ids_count);
                self.output.rewriters.clear();
                self.output.file.go_back(&mark)?;
                Err(error)
            }
        }
    }

    /// Writes the baskets or pages of a tree, and then its record.
    fn copy_item(
        &mut self,
        input: &Input,
        mut item: Item,
        target: &Target<'_>,
        request: &MergeRequest,
    ) -> Result<Copied> {
        item.content.prepare(&Source { file: &input.file, entry: &item.entry }, &request.branches)?;
        let key = TKey { name: target.name.to_string(), ..item.entry.key };
        let entry = Entry { path: target.path.clone(), key };
        let mut recompressor = request.codec.map(Recompressor::new);
        let (mut checkpoints, bytes_done) = (Checkpoints::begin(request)?, AtomicU64::new(0));
        let mut transfer = Transfer {
            request,
            recompressor: recompressor.as_mut(),
            process_ids_before: self.process_ids.write(&input.process_ids, self.output)?,
            written_before: None,
            placed: Vec::new(),
            copies: HashMap::new(),
            progress: &mut |_| (self.check)(),
            checkpoints: &mut checkpoints,
            volume: 0,
            bytes_done: &bytes_done,
        };
        let source = Source { file: &input.file, entry: &entry };
        let written = item.content.write(None, &source, self.output, &mut transfer)?;
        let mut product = AnyProduct::begin(item.content, written, &source, self.output)?;
        if let AnyProduct::Tree(tree) = &mut product {
            tree.rename(target.name);
        }
        let name = ObjectName { cycle: target.cycle, ..source.object_name() };
        let mut merged = Merged::default();
        product.finish(&target.path, &name, self.output, &mut merged)?;
        Ok(Copied { name, process_ids: Vec::new(), left_out: merged.left_out })
    }
}
