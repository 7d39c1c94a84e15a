//! Adds entries, branches and fields to trees and RNTuples that the file already had when it was opened.

use std::collections::HashMap;
use std::sync::Arc;

use branchline_format::tree::read_tree;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::file::rntuple_metadata::Ntuple;
use crate::file::File;
use crate::write::columns::{Layout, NamedColumn, NewColumns, OpenColumns, OpenNtuple, OpenTree};
use crate::write::writable::{Listed, OpenTable, WritableFile};

impl WritableFile {
    /// Opens the newest tree or RNTuple at this path for appending. The existing baskets or pages stay where they are.
    ///
    /// `old` is the file from which the metadata are read. Of the values in `fields`, only the types are used. `counts`
    /// holds the maximum of each counter. Returns the index of the table, which `fill` expects. If this fails, nothing
    /// is changed.
    pub fn resume_table(
        &mut self,
        old: &Arc<File>,
        path: &str,
        layout: Layout,
        fields: &[NamedColumn<'_>],
        counts: &HashMap<String, i32>,
    ) -> Result<usize> {
        let missing = || ReadError::new(ReadErrorKind::NoSuchKey, old.path(), format!("there is no tree {path:?}"));
        let found = self.listed.iter().rev().filter(|(listed, _)| listed.path == path);
        let found = found.filter_map(|(listed, slot)| Some((listed.clone(), (*slot)?))).next();
        let (listed, slot) = found.ok_or_else(missing)?;
        let entry = old.find_tree(Some(&format!("{path};{}", listed.cycle)))?;
        let named = |error: branchline_format::error::FormatError| {
            ReadError::from_format(old.path(), &error.in_object(&entry.path))
        };
        let new = |description: &str| NewColumns {
            directory: slot.directory,
            name: entry.key.name.clone(),
            description: description.to_string(),
            cycle: listed.cycle,
            date: self.date,
            layout,
            codecs: HashMap::new(),
        };
        let (columns, entries_count): (Box<dyn OpenColumns>, u64) = match entry.key.class_name.as_str() {
            "TTree" => {
                let plain = old.metadata_reader().object(&entry.key)?;
                let tree = read_tree(&plain, entry.key.key_size, "TTree", old.class_infos()).map_err(named)?;
                let new = (new(&tree.title), slot);
                let resumed = OpenTree::resume(&self.output.file, new, fields, &tree, counts)?;
                (Box::new(resumed), tree.entries_count)
            }
            "ROOT::RNTuple" => {
                let ntuple = Ntuple::open(&mut old.metadata_reader(), &entry, old.whole_classes())?;
                let resumed = OpenNtuple::resume((new(ntuple.description()), slot), old, &ntuple)?;
                (Box::new(resumed), ntuple.entries_count)
            }
            other => {
                let message = format!("{path} is a {other}, which cannot be extended");
                let error = ReadError::new(ReadErrorKind::Unsupported, old.path(), message);
                return Err(error.with_hint("write a new tree with the entries of both"));
            }
        };
        match listed.class_name.as_str() {
            "TTree" => self.described.trees = true,
            _ => self.described.ntuples = true,
        }
        let Listed { path, cycle, .. } = listed;
        let (published, is_broken) = (None, false);
        self.open.push(Some(OpenTable { path, cycle, slot, columns, entries_count, published, is_broken }));
        Ok(self.open.len() - 1)
    }

    /// Adds branches to a tree or fields to an RNTuple, with a value for each existing entry.
    pub fn add_columns(&mut self, table: usize, fields: &[NamedColumn<'_>]) -> Result<()> {
        match self.open.get_mut(table) {
            Some(Some(OpenTable { is_broken: true, path, .. })) => {
                let message = format!("tree {path} is incomplete: adding entries to it failed before");
                Err(self.refused(&message))
            }
            Some(Some(open)) => {
                let added = open.columns.add_columns(&mut self.output.file, fields);
                // The published version lacks the new columns, so it must be published again.
                if let Some(before) = open.published.take() {
                    self.output.file.supersede(before.bytes);
                }
                open.is_broken = added.as_ref().is_err_and(|error| error.kind != ReadErrorKind::Unsupported);
                added
            }
            _ => Err(self.refused("this tree is removed or finished")),
        }
    }
}
