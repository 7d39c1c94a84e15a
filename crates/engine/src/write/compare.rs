//! Whether some files hold what others hold: basket by basket without decompressing, and object by object.

mod entries;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use branchline_format::error::FormatError;
use branchline_format::write::Sum;
use branchline_storage::Access;

use crate::error::{ReadError, Result};
use crate::limits;
use crate::write::baskets::copy::{digest_of, Copying};
use crate::write::compare::entries::EntryDigests;
use crate::write::merge::input::{Content, Input, Item};
use crate::write::merge::volume::digest_of_key;
use crate::write::merge::{Branches, Order};
use crate::write::products::ntuple::NtupleInput;
use crate::write::products::tree::input::{KnownTrees, TreeInput, Uneven};

/// What is compared.
#[derive(Debug, Clone)]
pub struct CompareOptions {
    /// Files that were made.
    pub outputs: Vec<String>,
    /// Files that they were made of.
    pub inputs: Vec<String>,
    /// Path of the only tree that is compared; everything if it is not given.
    pub tree: Option<String>,
    /// How they are read.
    pub access: Access,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compared {
    /// Trees of any of the files.
    pub trees: Vec<TreeCompared>,
    /// Other objects that are in both.
    pub objects_count: u64,
    /// In what other objects differ.
    pub differences: Vec<String>,
}

/// A tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TreeCompared {
    /// Its path.
    pub path: String,
    /// Entries in the outputs and in the inputs.
    pub entries: (u64, u64),
    /// Baskets in the outputs.
    pub baskets_count: u64,
    /// Its branches.
    pub branches_count: u64,
    /// Branches of which some basket differs, and that have the same entries all the same.
    pub same: Vec<String>,
    /// Other branches of which some basket differs or stands elsewhere, and the first of these.
    pub differing: Vec<(String, String)>,
    /// What is missing on one side.
    pub differences: Vec<String>,
}

/// Compares files.
pub fn compare(options: &CompareOptions, go_on: &mut dyn FnMut() -> Result<()>) -> Result<Compared> {
    let made = Contents::of(&options.outputs, options, go_on)?;
    let given = Contents::of(&options.inputs, options, go_on)?;
    let mut compared = Compared::default();
    let paths: HashSet<&String> = made.trees.keys().chain(given.trees.keys()).collect();
    let nothing = Table::default();
    let mut paths: Vec<&String> = paths.into_iter().collect();
    paths.sort();
    for path in paths {
        let (one, two) = (made.trees.get(path).unwrap_or(&nothing), given.trees.get(path).unwrap_or(&nothing));
        let mut tree = one.compared(path, two);
        if one.is_ttree && two.is_ttree {
            tree.compare_entries(options, go_on)?;
        }
        compared.trees.push(tree);
    }
    made.compare_objects(&given, &mut compared);
    Ok(compared)
}

/// What some files hold together.
#[derive(Default)]
struct Contents {
    trees: BTreeMap<String, Table>,
    objects: BTreeMap<String, Versions>,
}

/// Objects of one path.
#[derive(Default)]
struct Versions {
    sums: Vec<Sum>,
    copies: HashSet<u128>,
    /// Older cycles, which need not be in another file.
    older_sums: Vec<Sum>,
    older_copies: HashSet<u128>,
}

impl Versions {
    /// How many there are that need to be in another file.
    fn count(&self) -> u64 {
        (self.sums.len() + self.copies.len()) as u64
    }

    /// In what the versions of an output differ from those of its inputs.
    fn difference(&self, given: &Self, path: &str) -> Option<String> {
        let all = |of: &'_ Self| -> HashSet<u128> { of.copies.union(&of.older_copies).copied().collect() };
        let (ours, theirs) = (all(self), all(given));
        if !given.copies.is_subset(&ours) || !self.copies.is_subset(&theirs) {
            return Some(format!("{path} has other versions than the inputs"));
        }
        let mut why = None;
        let mut is_among = |sum: &Sum, others: &Self| {
            others.sums.iter().chain(&others.older_sums).any(|other| match sum.difference(other) {
                Some(what) => {
                    why = Some(what);
                    false
                }
                None => true,
            })
        };
        let is_whole =
            given.sums.iter().all(|sum| is_among(sum, self)) && self.sums.iter().all(|sum| is_among(sum, given));
        (!is_whole).then(|| {
            let why = why.unwrap_or_else(|| "there is none".to_string());
            format!("{path} is not the sum of those of the inputs: {why}")
        })
    }
}

/// The baskets of a tree.
#[derive(Default)]
struct Table {
    is_ttree: bool,
    entries_count: u64,
    branches: BTreeMap<String, Vec<Row>>,
}

/// A basket: its first entry, its entries, and what tells its bytes from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    entry_start: u64,
    entries_count: u64,
    digest: u64,
}

impl Contents {
    fn of(paths: &[String], options: &CompareOptions, go_on: &mut dyn FnMut() -> Result<()>) -> Result<Self> {
        let (mut all, known) = (Self::default(), KnownTrees::new(Uneven::CompletedIfPossible));
        for path in paths {
            let input = Input::open(path, options.tree.as_deref(), (&Branches::new(), &known), &options.access)?;
            all.add(input, go_on)?;
        }
        Ok(all)
    }

    fn add(&mut self, input: Input, go_on: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let (file, infos) = (Arc::clone(&input.file), Arc::clone(input.file.class_infos()));
        // Programs compress objects in other ways.
        let content_of = |item: &Item| {
            let named = |error: FormatError| {
                let what = format!("{} {}", item.key.class_name, item.path);
                ReadError::from_format(file.path(), &error.in_object(what))
            };
            let plain = item.plain().map_err(named)?;
            Ok(digest_of_key(&item.key.title, &item.key.class_name, &plain))
        };
        for item in input.older()? {
            let digest = matches!(item.content, Content::Copy(..)).then(|| content_of(&item)).transpose()?;
            let versions = self.objects.entry(item.path).or_default();
            match item.content {
                Content::Copy(..) => versions.older_copies.extend(digest),
                Content::Sum { plain, addend } => {
                    let sum = Sum::new(plain, item.key.key_size, &item.key.class_name, &infos, *addend);
                    versions.older_sums.push(sum);
                }
                _ => {}
            }
        }
        for item in input.items {
            match item.content {
                Content::Directory => {}
                Content::Tree(tree) => self.trees.entry(item.path).or_default().add(&file, &tree, go_on)?,
                Content::Ntuple(ntuple) => {
                    self.trees.entry(item.path).or_default().add_ntuple(&ntuple, go_on)?;
                }
                Content::Copy(..) => {
                    let digest = content_of(&item)?;
                    self.objects.entry(item.path).or_default().copies.insert(digest);
                }
                Content::Sum { plain, addend } => {
                    let sums = &mut self.objects.entry(item.path).or_default().sums;
                    match sums.iter_mut().find_map(|sum| sum.plan(&addend).ok().map(|plan| (sum, plan))) {
                        Some((sum, plan)) => sum.add(*addend, &plan),
                        None => {
                            sums.push(Sum::new(plain, item.key.key_size, &item.key.class_name, &infos, *addend));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn compare_objects(&self, given: &Self, compared: &mut Compared) {
        let paths: BTreeSet<&String> = self.objects.keys().chain(given.objects.keys()).collect();
        for path in paths {
            let told = match (self.objects.get(path), given.objects.get(path)) {
                (Some(one), Some(two)) => one.difference(two, path),
                (Some(_), None) => Some(format!("{path} is in none of the inputs")),
                _ => Some(format!("{path} is not in the output")),
            };
            match told {
                Some(told) => compared.differences.push(told),
                None => compared.objects_count += given.objects.get(path).map_or(0, Versions::count),
            }
        }
    }
}

impl TreeCompared {
    /// Looks for branches with the same entries in other baskets.
    fn compare_entries(&mut self, options: &CompareOptions, go_on: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let branches: HashSet<String> = self.differing.iter().map(|(name, _)| name.clone()).collect();
        if branches.is_empty() || !self.differences.is_empty() {
            return Ok(());
        }
        let wanted = (self.path.as_str(), &branches);
        let made = EntryDigests::of(&options.outputs, wanted, &options.access, go_on)?;
        let given = EntryDigests::of(&options.inputs, wanted, &options.access, go_on)?;
        let (same, differing): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.differing).into_iter().partition(|(name, _)| made.are_same(&given, name));
        self.differing = differing;
        self.same = same.into_iter().map(|(name, _)| name).collect();
        Ok(())
    }
}

impl Table {
    /// Of an RNTuple the pages of all that belongs to a field at the top are compared.
    fn add_ntuple(&mut self, ntuple: &NtupleInput, go_on: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        for (field, pages) in ntuple.digests(go_on)? {
            let rows = self.branches.entry(field).or_default();
            rows.extend(pages.into_iter().map(|page| Row {
                entry_start: self.entries_count + page.first_entry,
                entries_count: page.elements_count,
                digest: page.digest,
            }));
        }
        self.entries_count += ntuple.entries_count();
        Ok(())
    }

    fn add(&mut self, file: &crate::file::File, tree: &TreeInput, go_on: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.is_ttree = true;
        let first = self.entries_count;
        let mut rows: Vec<Vec<Row>> = Vec::with_capacity(tree.tree.branches.len());
        for branch in &tree.tree.branches {
            let of = |basket: &branchline_format::tree::Basket| Row {
                entry_start: first + basket.entry_start,
                entries_count: basket.entry_stop - basket.entry_start,
                digest: 0,
            };
            rows.push(branch.baskets.iter().map(of).collect());
        }
        let reading = Copying {
            file,
            tree: &tree.tree,
            order: Order::Offset,
            seek_directory: 0,
            process_ids_before: 0,
            bundle_bytes: limits::COPIED_AT_ONCE_BYTES,
            digests: false,
        };
        reading.for_bundles(|bundle, records| {
            for (basket, record) in bundle.iter().zip(records) {
                rows[basket.branch][basket.basket].digest = digest_of(&record);
            }
            go_on()
        })?;
        for (branch, rows) in tree.tree.branches.iter().zip(rows) {
            self.branches.entry(branch.path.clone()).or_default().extend(rows);
        }
        self.entries_count += tree.tree.entries_count;
        Ok(())
    }

    /// In what the tree of the outputs differs from that of the inputs.
    fn compared(&self, path: &str, given: &Self) -> TreeCompared {
        let mut found = TreeCompared {
            path: path.to_string(),
            entries: (self.entries_count, given.entries_count),
            baskets_count: self.branches.values().map(|rows| rows.len() as u64).sum(),
            branches_count: self.branches.len() as u64,
            ..TreeCompared::default()
        };
        if self.entries_count != given.entries_count {
            let message = format!("it has {} entries, the inputs {}", self.entries_count, given.entries_count);
            found.differences.push(message);
        }
        for name in given.branches.keys().filter(|name| !self.branches.contains_key(*name)) {
            found.differences.push(format!("branch {name} is not in the output"));
        }
        for (name, rows) in &self.branches {
            let Some(others) = given.branches.get(name) else {
                found.differences.push(format!("branch {name} is in none of the inputs"));
                continue;
            };
            if rows != others {
                let count = rows.iter().zip(others).take_while(|(one, two)| one == two).count();
                let message = match (rows.get(count), others.get(count)) {
                    (Some(one), Some(two)) if one.digest != two.digest => {
                        format!("basket {count}, from entry {} on, has other bytes", one.entry_start)
                    }
                    (Some(one), Some(two)) => {
                        format!(
                            "basket {count} begins with entry {}, that of the inputs {}",
                            one.entry_start, two.entry_start
                        )
                    }
                    _ => format!("there are {} baskets, in the inputs {}", rows.len(), others.len()),
                };
                found.differing.push((name.clone(), message));
            }
        }
        found
    }
}
