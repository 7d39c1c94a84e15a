//! Compares the contents of two sets of files: trees basket by basket without decompression, and all other contents
//! object by object.
//!
//! ```no_run
//! use branchline_engine::write::compare::{compare, CompareRequest};
//! use branchline_storage::Access;
//!
//! let request = CompareRequest {
//!     outputs: vec!["merged.root".to_string()],
//!     inputs: vec!["first.root".to_string(), "second.root".to_string()],
//!     tree: None,
//!     access: Access::default(),
//! };
//! let compared = compare(&request, &mut || Ok(()))?;
//! assert!(compared.differences.is_empty());
//! # Ok::<(), branchline_engine::error::ReadError>(())
//! ```

mod elements;
mod entries;
mod files;

use std::collections::{BTreeSet, HashSet};

use branchline_storage::Access;

use crate::error::{guarded, Result};
use crate::write::compare::elements::ElementDigests;
use crate::write::compare::entries::EntryDigests;
use crate::write::compare::files::ComparedFiles;
use crate::write::merge::input::{Input, Item, Wanted};
use crate::write::merge::unions::UnionBuilders;
use crate::write::merged::filled::FilledColumn;
use crate::write::products::holdings::{Holdings, Table, Versions};
use crate::write::products::list::AnyContent;
use crate::write::products::source::Source;
use crate::write::products::tree_input::input::{KnownTrees, UnevenBranches};
use crate::write::products::tree_input::unions::Unions;
use crate::write::progress::Check;
use crate::write::request::Branches;

/// The files to compare.
#[derive(Debug, Clone)]
pub struct CompareRequest {
    /// The output files.
    pub outputs: Vec<String>,
    /// The input files from which the outputs were made.
    pub inputs: Vec<String>,
    /// Path of the only tree to compare; None to compare everything.
    pub tree: Option<String>,
    /// How the files are read.
    pub access: Access,
}

/// Result of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compared {
    /// The trees that are in any of the files.
    pub trees: Vec<ComparedTree>,
    /// Number of other objects that both sides have.
    pub objects_count: u64,
    /// Differences between other objects.
    pub differences: Vec<String>,
}

/// Result for a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ComparedTree {
    /// The path of the tree.
    pub path: String,
    /// Number of entries in the outputs.
    pub entries_count: u64,
    /// Number of baskets in the outputs.
    pub baskets_count: u64,
    /// Number of branches.
    pub branches_count: u64,
    /// Branches that have the same entries on both sides, but in different baskets.
    pub same: Vec<String>,
    /// Branches with a basket that differs or is in another position, unless their entries are known to be the same.
    pub differing: Vec<DifferingBranch>,
    /// Descriptions of everything that is missing on one side.
    pub differences: Vec<String>,
    /// Branches that some inputs lack. The entries of these inputs should be 0 or empty in such a branch.
    pub filled: Vec<FilledColumn>,
}

/// A branch whose baskets differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DifferingBranch {
    /// The path of the branch in the tree.
    pub name: String,
    /// The first difference.
    pub reason: String,
}

/// Compares files. `check` is called repeatedly, and may abort the comparison with an error.
pub fn compare(request: &CompareRequest, check: &mut dyn FnMut() -> Result<()>) -> Result<Compared> {
    let made = holdings_of(&request.outputs, request, &Unions::default(), check)?;
    let (given, unions) = given_holdings(request, &made, check)?;
    let mut compared = Compared::default();
    let paths: BTreeSet<&String> = made.trees.keys().chain(given.trees.keys()).collect();
    let nothing = Table::default();
    for path in paths {
        let (one, two) = (made.trees.get(path).unwrap_or(&nothing), given.trees.get(path).unwrap_or(&nothing));
        let mut tree = compare_tables(path, one, two);
        if one.is_ttree == two.is_ttree {
            tree.compare_entries(one.is_ttree, request, &unions, check)?;
        }
        compared.trees.push(tree);
    }
    compare_objects(&made, &given, &mut compared);
    Ok(compared)
}

/// Returns the contents of all inputs. If some inputs lack branches of the output, these branches are filled as in a
/// merge, and the unions of the branches are returned too.
fn given_holdings(request: &CompareRequest, made: &Holdings, check: &mut Check<'_>) -> Result<(Holdings, Unions)> {
    let branches = Branches::new();
    let wanted = Wanted { tree: request.tree.as_deref(), branches: &branches, access: &request.access };
    let known_trees = KnownTrees::new(UnevenBranches::FilledIfPossible);
    let mut builders = UnionBuilders::default();
    let mut is_lacking = false;
    for path in &request.inputs {
        check()?;
        let input = Input::open(path, wanted, &known_trees)?;
        is_lacking |= input.items.iter().any(|item| lacks_branches(item, made));
        if builders.add(&input).is_err() {
            // Some branches have the same name but different types. The comparison will report them.
            is_lacking = false;
            break;
        }
    }
    let unions = if is_lacking { builders.finish()?.unions } else { Unions::default() };
    Ok((holdings_of(&request.inputs, request, &unions, check)?, unions))
}

/// Whether a tree of an input lacks branches, or an RNTuple lacks fields, that the output has.
fn lacks_branches(item: &Item, made: &Holdings) -> bool {
    let Some(table) = made.trees.get(&item.entry.path) else { return false };
    let own: HashSet<&str> = match &item.content {
        AnyContent::Tree(content) => content.tree.branches.iter().map(|branch| branch.path.as_str()).collect(),
        AnyContent::Ntuple(content) => content.input.names_at_top().collect(),
        AnyContent::Directory(_) | AnyContent::Object(_) => return false,
    };
    table.branches.keys().any(|name| !own.contains(name.as_str()))
}

/// Returns the contents of some files. Each tree is extended by all branches of its union.
fn holdings_of(paths: &[String], request: &CompareRequest, unions: &Unions, check: &mut Check<'_>) -> Result<Holdings> {
    let mut holdings = Holdings::default();
    let known_trees = KnownTrees::with_unions(UnevenBranches::FilledIfPossible, unions.clone());
    let branches = Branches::new();
    let wanted = Wanted { tree: request.tree.as_deref(), branches: &branches, access: &request.access };
    for path in paths {
        guarded(path, || {
            let input = Input::open(path, wanted, &known_trees)?;
            let older = input.older()?;
            for (items, is_older) in [(older, true), (input.items, false)] {
                for Item { entry, content } in items {
                    let source = Source { file: &input.file, entry: &entry };
                    content.hold(&source, is_older, &mut holdings, check)?;
                }
            }
            Ok(())
        })?;
    }
    Ok(holdings)
}

fn compare_objects(made: &Holdings, given: &Holdings, compared: &mut Compared) {
    let paths: BTreeSet<&String> = made.objects.keys().chain(given.objects.keys()).collect();
    for path in paths {
        let difference = match (made.objects.get(path), given.objects.get(path)) {
            (Some(one), Some(two)) => one.difference(two, path),
            (Some(_), None) => Some(format!("{path} is in none of the inputs")),
            _ => Some(format!("{path} is not in the output")),
        };
        match difference {
            Some(difference) => compared.differences.push(difference),
            None => compared.objects_count += given.objects.get(path).map_or(0, Versions::count),
        }
    }
}

impl ComparedTree {
    /// Finds branches that have the same entries in different baskets.
    fn compare_entries(
        &mut self,
        is_ttree: bool,
        request: &CompareRequest,
        unions: &Unions,
        check: &mut Check<'_>,
    ) -> Result<()> {
        let branches: HashSet<String> = self.differing.iter().map(|branch| branch.name.clone()).collect();
        if branches.is_empty() || !self.differences.is_empty() {
            return Ok(());
        }
        let (tree, access, none) = (self.path.as_str(), &request.access, Unions::default());
        let outputs = ComparedFiles { files: &request.outputs, tree, access, unions: &none };
        let inputs = ComparedFiles { files: &request.inputs, tree, access, unions };
        let same: HashSet<String> = if is_ttree {
            let made = EntryDigests::of(outputs, &branches, check)?;
            let given = EntryDigests::of(inputs, &branches, check)?;
            branches.into_iter().filter(|name| made.are_same(&given, name)).collect()
        } else {
            let made = ElementDigests::of(outputs, check)?;
            let given = ElementDigests::of(inputs, check)?;
            branches.into_iter().filter(|name| made.are_same(&given, name)).collect()
        };
        let (same, differing): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.differing).into_iter().partition(|branch| same.contains(&branch.name));
        let is_filled = |branch: &DifferingBranch| self.filled.iter().any(|filled| filled.name == branch.name);
        let (filled, differing): (Vec<_>, Vec<_>) = differing.into_iter().partition(is_filled);
        // The caller compares the values of `differing` branches. If an input lacks a branch, it has no values to
        // compare, so report this branch here.
        self.differences.extend(filled.into_iter().map(|DifferingBranch { name, reason }| {
            format!("branch {name}, which some inputs lack, has unexpected values: {reason}")
        }));
        self.differing = differing;
        self.same = same.into_iter().map(|branch| branch.name).collect();
        Ok(())
    }
}

/// Compares the tree of the outputs with the tree of the inputs.
fn compare_tables(path: &str, made: &Table, given: &Table) -> ComparedTree {
    let mut found = ComparedTree {
        path: path.to_string(),
        entries_count: made.entries_count,
        baskets_count: made.branches.values().map(|rows| rows.len() as u64).sum(),
        branches_count: made.branches.len() as u64,
        filled: given.filled.of_tree(path),
        ..ComparedTree::default()
    };
    if made.entries_count != given.entries_count {
        let message = format!("it has {} entries, but the inputs have {}", made.entries_count, given.entries_count);
        found.differences.push(message);
    }
    for name in given.branches.keys().filter(|name| !made.branches.contains_key(*name)) {
        found.differences.push(format!("branch {name} is not in the output"));
    }
    for (name, rows) in &made.branches {
        let Some(others) = given.branches.get(name) else {
            found.differences.push(format!("branch {name} is in none of the inputs"));
            continue;
        };
        if rows != others {
            let count = rows.iter().zip(others).take_while(|(one, two)| one == two).count();
            let message = match (rows.get(count), others.get(count)) {
                (Some(one), Some(two)) if one.digest != two.digest => {
                    format!("basket {count}, starting at entry {}, has different bytes", one.entry_start)
                }
                (Some(one), Some(two)) => {
                    format!(
                        "basket {count} begins at entry {}, but at entry {} in the inputs",
                        one.entry_start, two.entry_start
                    )
                }
                _ => format!("there are {} baskets, but {} in the inputs", rows.len(), others.len()),
            };
            found.differing.push(DifferingBranch { name: name.clone(), reason: message });
        }
    }
    found
}
