//! The branches that all inputs of a merge have together. Every input is opened once more for this, before anything is
//! written: the first tree must have the branches of the last.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::Result;
use crate::write::merge::input::{Input, Item};
use crate::write::products::list::AnyContent;
use crate::write::products::source::Source;
use crate::write::products::tree::union::{UnionBuilder, Unions};

/// Joins the trees of inputs by their paths.
#[derive(Default)]
pub(crate) struct UnionBuilders {
    trees: HashMap<String, UnionBuilder>,
}

impl UnionBuilders {
    /// Joins the trees of an input with those before. Refuses branches of one name that differ.
    pub(crate) fn add(&mut self, input: &Input) -> Result<()> {
        for Item { entry, content } in &input.items {
            let AnyContent::Tree(tree) = content else { continue };
            let joined = tree.joined(Source { file: &input.file, entry });
            match self.trees.get_mut(&entry.path) {
                Some(known) => known.add(joined)?,
                None => {
                    self.trees.insert(entry.path.clone(), UnionBuilder::new(joined)?);
                }
            }
        }
        Ok(())
    }

    /// The unions of trees whose branches differ.
    pub(crate) fn finish(self) -> Result<Unions> {
        let mut unions = Unions::new();
        for (path, builder) in self.trees {
            unions.extend(builder.finish()?.map(|union| (path, Arc::new(union))));
        }
        Ok(unions)
    }
}
