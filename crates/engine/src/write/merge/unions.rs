//! The branches and fields that all inputs of a merge have together. Every input is opened once more for this, before
//! anything is written: the first tree must have the branches of the last.

use std::collections::HashMap;
use std::sync::Arc;

use branchline_format::ntuple::schema::Schema;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::write::merge::info_lists::InfoLists;
use crate::write::merge::input::Input;
use crate::write::pages::union::NtupleUnionBuilder;
use crate::write::products::list::AnyContent;
use crate::write::products::source::Source;
use crate::write::products::tree_input::union::{JoinedTree, TreeUnionBuilder};
use crate::write::products::tree_input::unions::Unions;

/// Joins the trees and RNTuples of inputs by their paths.
#[derive(Default)]
pub(crate) struct UnionBuilders {
    trees: HashMap<String, TreeUnionBuilder>,
    ntuples: HashMap<String, NtupleUnionBuilder>,
    infos: InfoLists,
}

/// What all inputs have together.
#[derive(Default)]
pub(crate) struct JoinedUnions {
    pub(crate) unions: Unions,
    /// The streamer infos of all inputs, if any tree gets branches that it lacks: their classes may be described only
    /// in inputs that are in another output.
    pub(crate) infos: InfoLists,
}

impl UnionBuilders {
    /// Joins those of an input with those before. Refuses branches and fields of one name that differ.
    pub(crate) fn add(&mut self, input: &Input) -> Result<()> {
        for item in &input.items {
            match &item.content {
                AnyContent::Tree(tree) => self.add_tree(tree.joined(item.source(&input.file)), &item.entry.path)?,
                AnyContent::Ntuple(ntuple) => self.add_ntuple(&ntuple.input.schema, item.source(&input.file))?,
                AnyContent::Directory(_) | AnyContent::Object(_) => {}
            }
        }
        let new = self.infos.new_of(input)?;
        self.infos.add(input, new);
        Ok(())
    }

    fn add_tree(&mut self, joined: JoinedTree<'_>, path: &str) -> Result<()> {
        match self.trees.get_mut(path) {
            Some(known) => known.add(joined),
            None => {
                self.trees.insert(path.to_string(), TreeUnionBuilder::new(joined)?);
                Ok(())
            }
        }
    }

    fn add_ntuple(&mut self, schema: &Schema, source: Source<'_>) -> Result<()> {
        let path = source.path();
        let Some(known) = self.ntuples.get_mut(path) else {
            self.ntuples.insert(path.to_string(), NtupleUnionBuilder::new(schema));
            return Ok(());
        };
        known.add(schema).map_err(|what| {
            let message = format!("{path}: {what}, unlike files before");
            ReadError::new(ReadErrorKind::Unsupported, source.file_path(), message)
                .with_hint("fields of one name must be the same in all files; merge these files apart")
        })
    }

    /// The unions of trees whose branches differ, and of RNTuples whose fields differ.
    pub(crate) fn finish(self) -> Result<JoinedUnions> {
        let mut unions = Unions::default();
        for (path, builder) in self.trees {
            unions.trees.extend(builder.finish()?.map(|union| (path, Arc::new(union))));
        }
        for (path, builder) in self.ntuples {
            unions.ntuples.extend(builder.finish().map(|union| (path, Arc::new(union))));
        }
        let is_needed = !unions.trees.is_empty() || !unions.ntuples.is_empty();
        let infos = if is_needed { self.infos } else { InfoLists::default() };
        Ok(JoinedUnions { unions, infos })
    }
}
