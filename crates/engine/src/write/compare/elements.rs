//! Compares RNTuple fields whose pages differ. Their elements (collection lengths, variant tags, and numbers) are
//! compared instead, because elements do not depend on clusters and pages.

use std::collections::HashMap;
use std::ops::Range;

use branchline_format::error::{FormatError, Result as FormatResult};
use branchline_format::ntuple::encoding::{Encoding, Kind};
use branchline_format::ntuple::page_list::Cluster;
use branchline_format::ntuple::write::elements::switches;
use branchline_format::ntuple::write::walk::element_ranges;
use xxhash_rust::xxh3::Xxh3;

use crate::error::{ReadError, Result};
use crate::limits;
use crate::write::compare::files::ComparedFiles;
use crate::write::merge::input::{Input, Wanted};
use crate::write::pages::elements::{converted, ClusterReader};
use crate::write::pages::input::InputNtuple;
use crate::write::pages::join::real_kind;
use crate::write::products::list::AnyContent;
use crate::write::products::tree_input::input::{KnownTrees, UnevenBranches};
use crate::write::progress::Check;
use crate::write::request::Branches;

/// Digests of the elements of each column, keyed by the field's path and the index of the column in the representation.
/// None if the elements could not be read.
#[derive(Default)]
pub(crate) struct ElementDigests {
    columns: Option<HashMap<(String, usize), Xxh3>>,
}

impl ElementDigests {
    /// Computes the digests of an RNTuple. If its elements cannot be read, the result has no digests, and the caller
    /// compares values instead.
    pub(crate) fn of(of: ComparedFiles<'_>, check: &mut Check<'_>) -> Result<Self> {
        let ComparedFiles { files, tree, access, unions } = of;
        let mut own = Self { columns: Some(HashMap::new()) };
        let branches = Branches::new();
        let wanted = Wanted { tree: Some(tree), branches: &branches, access };
        for file in files {
            let known_trees = KnownTrees::with_unions(UnevenBranches::FilledIfPossible, unions.clone());
            let input = Input::open(file, wanted, &known_trees)?;
            for item in &input.items {
                let AnyContent::Ntuple(content) = &item.content else { continue };
                for cluster in content.input.clusters()? {
                    check()?;
                    if own.add(&content.input, cluster).is_err() {
                        return Ok(Self::default());
                    }
                }
            }
        }
        Ok(own)
    }

    /// Whether a top-level field has the same elements as in another RNTuple.
    pub(crate) fn are_same(&self, other: &Self, name: &str) -> bool {
        let (Some(ours), Some(theirs)) = (&self.columns, &other.columns) else { return false };
        let of_field = |columns: &HashMap<(String, usize), Xxh3>| {
            let is_of =
                |path: &str| path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
            let mut all: Vec<(String, usize, u128)> = columns
                .iter()
                .filter(|((path, _), _)| is_of(path))
                .map(|((path, place), digest)| (path.clone(), *place, digest.digest128()))
                .collect();
            all.sort_unstable();
            all
        };
        of_field(ours) == of_field(theirs)
    }

    fn add(&mut self, input: &InputNtuple, cluster: &Cluster) -> FormatResult<()> {
        let Some(columns) = &mut self.columns else { return Ok(()) };
        let unread = |error: ReadError| FormatError::unsupported(error.message);
        let mut reader = ClusterReader::new(input, cluster, false, limits::COPIED_AT_ONCE_BYTES).map_err(unread)?;
        let schema = &input.schema;
        let ranges = element_ranges(schema, 0..cluster.entries_count(), &mut reader)?;
        let active: Vec<(usize, Vec<usize>)> =
            reader.active.iter().map(|(field, columns)| (*field, columns.clone())).collect();
        for (field, of_field) in active {
            for (place, column) in of_field.into_iter().enumerate() {
                let range = ranges[column].clone().unwrap_or_default();
                let elements = elements_of(&mut reader, input, column, range)?;
                columns.entry((schema.path_of(field), place)).or_default().update(&elements);
            }
        }
        Ok(())
    }
}

/// Returns the elements of a column in a form that depends neither on clusters nor on the packing of numbers.
fn elements_of(
    reader: &mut ClusterReader<'_>,
    input: &InputNtuple,
    column: usize,
    range: Range<u64>,
) -> FormatResult<Vec<u8>> {
    let info = &input.schema.columns[column];
    let encoding = info.encoding.clone().map_err(FormatError::unsupported)?;
    let elements = reader.elements(column, range)?;
    match encoding.kind {
        Kind::Index(_) | Kind::SplitIndex(_) => Ok(lengths(&elements)),
        Kind::Switch => Ok(switches(&elements).flat_map(|switch| switch.tag.to_ne_bytes()).collect()),
        Kind::Quantized { .. } => {
            let real: Encoding =
                real_kind(&input.schema.fields[info.field]).encoding().map_err(FormatError::unsupported)?;
            converted(&encoding, &real, elements)
        }
        Kind::Bit | Kind::Plain(_) | Kind::Split(_) | Kind::Truncated => Ok(elements),
    }
}

/// Returns the lengths of collections with these end offsets.
fn lengths(ends: &[u8]) -> Vec<u8> {
    let mut before = 0u64;
    let length = |raw: &[u8; 8]| {
        let end = u64::from_ne_bytes(*raw);
        end.wrapping_sub(std::mem::replace(&mut before, end)).to_ne_bytes()
    };
    ends.as_chunks::<8>().0.iter().flat_map(length).collect()
}
