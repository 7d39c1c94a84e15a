//! The union of the branches and fields of all inputs of a merge. To compute the union, every input is opened an
//! additional time before anything is written, because the first tree in the output must already have the branches of
//! the last.

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

/// Builds the unions of all trees and RNTuples, keyed by path.
#[derive(Default)]
pub(crate) struct UnionBuilders {
    trees: HashMap<String, TreeUnionBuilder>,
    ntuples: HashMap<String, NtupleUnionBuilder>,
    infos: InfoLists,
}

/// The unions of all trees and RNTuples in the inputs.
#[derive(Default)]
pub(crate) struct JoinedUnions {
    pub(crate) unions: Unions,
    /// The streamer infos of all inputs, if any tree is extended by branches that it lacks. They are needed because the
    /// classes of a branch may be described only in inputs that go into another output.
    pub(crate) infos: InfoLists,
}

impl UnionBuilders {
    /// Adds an input to the unions. Returns an error if branches or fields have the same name but different types.
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
            let message = format!("{path}: {what}, unlike in previous files");
            ReadError::new(ReadErrorKind::Unsupported, source.file_path(), message)
                .with_hint("fields with the same name must be the same in all files; merge these files separately")
        })
    }

    /// Returns the unions, but only for trees whose branches differ between inputs, and for RNTuples whose fields
    /// differ.
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
